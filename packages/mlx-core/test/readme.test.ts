import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { plainPackage } from './plain-package.js';

test('the example in the README prints what is written below it', async () => {
  const readme = readFileSync(join(import.meta.dirname, '..', 'README.md'), 'utf8');
  const [, example, printed] = /```js\n(.*?)```\n+```text\n(.*?)```/s.exec(readme)!;
  const program = plainPackage();
  try {
    const { stdout, stderr } = await program.run(
      example.replace('@mlx-runners/mlx-core', 'mlx-core'),
    );
    const error = /^ShapeError: .*$/m.exec(stderr)?.[0];
    expect(`${stdout}${error}\n`).toBe(printed);
  } finally {
    program.remove();
  }
});
