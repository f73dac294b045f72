import { UsageError } from '@mlx-runners/mlx-core/errors';
import { addExportCommands, createProgram, withDecoderExportOptions } from '@mlx-runners/runner';
import { decoderExportSchema, type DecoderExportOptions } from '@mlx-runners/runner/library';
import { expect, test } from 'vitest';

class Loaded extends Error {}

/** What `export` and `export-check` of a runner of language models give its `load`. */
async function given(...args: string[]): Promise<object> {
  const options: object[] = [];
  const load = (each: DecoderExportOptions): never => {
    options.push(each);
    throw new Loaded();
  };
  const program = createProgram('runner', import.meta.url);
  program.configureOutput({ writeErr: () => undefined });
  const manifest = { name: 'runner', defaultModel: 'default/model', models: {} };
  addExportCommands<DecoderExportOptions>(program, manifest as never, {
    withOptions: withDecoderExportOptions,
    load,
    tiny: load,
  });
  await program.parseAsync(['node', 'runner', ...args]).catch((error: unknown) => {
    if (!(error instanceof Loaded)) throw error;
  });
  return options[0];
}

const usual = { useCustomSdpa: true, useCustomKvCache: true };

test('a runner gets its own options beside those of the model, and not those of quantisation', async () => {
  expect(await given('export', '--out', 'x')).toEqual({ ...usual, model: 'default/model' });
  const all = [
    ...['--max-context-len', '1024', '--prefill-chunk', '256', '--logits-to-keep', 'selected'],
    ...['--cache', 'in-graph', '--no-use-custom-sdpa', '--no-use-custom-kv-cache'],
    ...[
      '--qlinear',
      '4w',
      '--qlinear-group-size',
      '128',
      '--qembedding',
      '8w',
      '--dtype',
      'float16',
    ],
  ];
  expect(await given('export-check', ...all)).toEqual({
    model: '',
    dtype: 'float16',
    maxContextLen: 1024,
    prefillChunk: 256,
    logitsToKeep: 'selected',
    cache: 'in-graph',
    useCustomSdpa: false,
    useCustomKvCache: false,
  });
});

test('the library takes the same options', () => {
  expect(decoderExportSchema.parse({ ...usual, cache: 'off-graph' })).toEqual({
    ...usual,
    cache: 'off-graph',
  });
});

test.each([
  [['--max-context-len', '0'], '--max-context-len must be a whole number of at least 1; got'],
  [['--prefill-chunk', 'much'], '--prefill-chunk must be a whole number of at least 1; got'],
  [['--logits-to-keep', 'first'], '--logits-to-keep must be one of full, last, selected; got'],
  [['--cache', 'none'], '--cache must be one of off-graph, in-graph; got'],
  [['--qlinear', '2w'], '--qlinear must be one of 4w, 8w, nvfp4, mxfp4, mxfp8; got'],
  [['--qembedding-group-size', '32'], '--qembedding-group-size goes with --qembedding.'],
  [['--qlinear', 'mxfp8', '--qlinear-group-size', '64'], 'The group size of mxfp8 must be 32.'],
])('options that make no sense: %j', async (args, message) => {
  await expect(given('export', '--out', 'x', ...args)).rejects.toThrow(message);
});

test('an encoder apart is only offered where there is one', () => {
  const offers = (encoder: boolean): boolean => {
    const program = createProgram('runner', import.meta.url);
    const load = (): never => {
      throw new UsageError('not loaded');
    };
    const manifest = { name: 'runner', defaultModel: 'default/model', models: {} };
    addExportCommands(program, manifest as never, { encoder, load, tiny: load });
    const command = program.commands.find((each) => each.name() === 'export')!;
    return command.options.some(({ long }) => long === '--qlinear-encoder');
  };
  expect([offers(true), offers(false)]).toEqual([true, false]);
});
