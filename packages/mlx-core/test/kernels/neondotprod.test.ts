import { kernelSuite } from './suite.js';

await kernelSuite('neondotprod');
