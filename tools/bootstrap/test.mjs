// `npm test`: sets up and runs every check and every test, and says last how many passed and failed.
import { requireNode } from './src/node-version.mjs';

requireNode();
const { test } = await import('./src/test.mjs');
process.exitCode = await test();
