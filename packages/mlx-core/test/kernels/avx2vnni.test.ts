import { kernelSuite } from './suite.js';

await kernelSuite('avx2vnni');
