import { join } from 'node:path';

/** The folder of the clone. */
export const workspaceRoot = join(import.meta.dirname, '../../..');
