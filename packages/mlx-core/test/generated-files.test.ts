import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('declarations and methods are those of the op table', async () => {
  const script = join(import.meta.dirname, '..', 'scripts', 'generate-ops.mjs');
  // Fails with the script's message when a file is out of date.
  const { stderr } = await promisify(execFile)(process.execPath, [script, '--check']);
  expect(stderr).toBe('');
});
