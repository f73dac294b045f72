import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { workspaceRoot } from '../src/published-packages.mjs';

const scripts = [
  'tools/packaging/pack.mjs',
  'tools/packaging/bundle.mjs',
  'packages/mlx-core/packaging/platform-package.mjs',
];

function run(script, option) {
  const args = [join(workspaceRoot, script), option];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return { code: status, out: stdout, err: stderr };
}

test.each(scripts)('%s --help names its options', (script) => {
  const out = expect.stringMatching(/^Options: \[--platform .*\n$/);
  expect(run(script, '--help')).toEqual({ code: 0, out, err: '' });
});

test.each(scripts)('%s: an option that it does not take is an error without a stack', (script) => {
  const err = expect.stringMatching(/^Unknown option '--plattform'.*\nOptions: \[--platform .*\n$/);
  expect(run(script, '--plattform')).toEqual({ code: 1, out: '', err });
});
