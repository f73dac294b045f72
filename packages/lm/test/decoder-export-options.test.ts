/** The flags of `export` and `export-check` of language models. */
import { withDecoderExportOptions } from '@mlx-runners/lm/command-line';
import { createProgram } from '@mlx-runners/runner';
import { expect, test } from 'vitest';

async function given(...args: string[]): Promise<object> {
  const program = createProgram('runner', import.meta.url);
  program.configureOutput({ writeErr: () => undefined });
  let options = {};
  withDecoderExportOptions(program.command('export')).action((parsed: object) => {
    options = parsed;
  });
  await program.parseAsync(['node', 'runner', 'export', ...args]);
  return options;
}

test('the ops for caches in the graph are used unless they are refused', async () => {
  expect(await given()).toEqual({ useCustomSdpa: true, useCustomKvCache: true });
  const all = [
    ...['--max-context-len', '1024', '--prefill-chunk', '256', '--logits-to-keep', 'selected'],
    ...['--cache', 'in-graph', '--no-use-custom-sdpa', '--no-use-custom-kv-cache'],
  ];
  expect(await given(...all)).toEqual({
    ...{ maxContextLen: 1024, prefillChunk: 256, logitsToKeep: 'selected' },
    ...{ cache: 'in-graph', useCustomSdpa: false, useCustomKvCache: false },
  });
});

test.each([
  [['--max-context-len', '0'], '--max-context-len must be a whole number of at least 1; got'],
  [['--prefill-chunk', 'much'], '--prefill-chunk must be a whole number of at least 1; got'],
  [['--logits-to-keep', 'first'], '--logits-to-keep must be one of full, last, selected; got'],
  [['--cache', 'none'], '--cache must be one of off-graph, in-graph; got'],
])('options that make no sense: %j', async (args, message) => {
  await expect(given(...args)).rejects.toThrow(message);
});
