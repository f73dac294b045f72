// `npm start`: sets up and transcribes real speech. `npm start -- FILE…` transcribes your own.
import { requireNode } from './src/node-version.mjs';

requireNode();
const { start } = await import('./src/start.mjs');
process.exitCode = await start(process.argv.slice(2));
