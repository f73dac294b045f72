import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { installedPackages } from './installed.js';

const installed = installedPackages();
afterAll(() => installed.remove());

test('the example in the README prints what is written below it', async () => {
  const readme = readFileSync(join(import.meta.dirname, '../README.md'), 'utf8');
  const [, example, printed] = /```js\n(.*?)```\n+```text\n(.*?)```/s.exec(readme)!;
  const folder = join(installed.folder, 'example');
  mkdirSync(folder);
  const program = `process.chdir(${JSON.stringify(folder)});\n${example}`;
  expect(await installed.run(program)).toBe(printed);
});
