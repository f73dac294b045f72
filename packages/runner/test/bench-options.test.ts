import { UsageError } from '@mlx-runners/mlx-core/errors';
import { createProgram, wantedPeers, withBenchOptions } from '@mlx-runners/runner';
import { expect, test } from 'vitest';

const peers = ['one', 'two'];

async function given(...args: string[]): Promise<object> {
  const program = createProgram('runner', import.meta.url);
  program.configureOutput({ writeErr: () => undefined });
  let options = {};
  withBenchOptions(program.command('bench'), { model: 'usual', threads: 2, peers }).action(
    (parsed: object) => {
      options = parsed;
    },
  );
  await program.parseAsync(['node', 'runner', 'bench', ...args]);
  return options;
}

test('the options have their defaults', async () => {
  expect(await given()).toEqual({ model: 'usual', threads: 2, runs: 3, peers: 'all' });
  expect(await given('--peers', 'two', '--runs', '1', '--threads', '4', '--quiet')).toEqual({
    ...{ model: 'usual', threads: 4, runs: 1, peers: 'two', quiet: true },
  });
});

test.each([
  [['--runs', '0'], '--runs must be a whole number of at least 1'],
  [['--peers', 'three'], '--peers must be one of all, one, two, none'],
  [['--threads', '2000'], '--threads must be a whole number from 1 to 1024'],
])('%j is refused', async (args, message) => {
  await expect(given(...args)).rejects.toThrow(message);
});

test('peers are those that are asked for and can be had', () => {
  const lines: string[] = [];
  const log = (line: string): number => lines.push(line);
  const wanted = (asked: string, missing?: string, out?: string) =>
    wantedPeers({ peers: asked, out }, peers, missing, log);
  expect(wanted('all', undefined, 'file')).toEqual(peers);
  expect(wanted('two')).toEqual(['two']);
  expect(wanted('none', 'they are not here')).toEqual([]);
  expect(lines).toEqual([]);
  expect(wanted('all', 'they are not here')).toEqual([]);
  expect(lines).toEqual(['measuring mlx-runners alone: they are not here']);
  for (const [asked, missing] of [['none'], ['one', 'they are not here']] as const) {
    expect(() => wanted(asked, missing, 'file')).toThrow(UsageError);
  }
});
