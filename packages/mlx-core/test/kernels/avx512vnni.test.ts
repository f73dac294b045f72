import { kernelSuite } from './suite.js';

await kernelSuite('avx512vnni');
