import { testConfig } from '../../vitest.base.mjs';

export default testConfig(import.meta.dirname);
