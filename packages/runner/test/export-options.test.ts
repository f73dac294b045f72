import { UsageError } from '@mlx-runners/mlx-core/errors';
import { addExportCommands, createProgram } from '@mlx-runners/runner';
import { expect, test } from 'vitest';

class Loaded extends Error {}

interface Own {
  layers?: string;
}

/** What `export` and `export-check` of a runner with an option of its own give its `load`. */
async function given(...args: string[]): Promise<object> {
  const options: object[] = [];
  const load = (each: Own): never => {
    options.push(each);
    throw new Loaded();
  };
  const program = createProgram('runner', import.meta.url);
  program.configureOutput({ writeErr: () => undefined });
  const manifest = { name: 'runner', defaultModel: 'default/model', models: {} };
  addExportCommands<Own>(program, manifest as never, {
    withOptions: (command) => command.option('--layers <n>', 'how many'),
    load,
    tiny: load,
  });
  await program.parseAsync(['node', 'runner', ...args]).catch((error: unknown) => {
    if (!(error instanceof Loaded)) throw error;
  });
  return options[0];
}

test('a runner gets its own options beside those of the model, and not those of quantisation', async () => {
  expect(await given('export', '--out', 'x')).toEqual({ model: 'default/model' });
  const all = ['--layers', '3', '--qlinear', '4w', '--qlinear-group-size', '128'];
  expect(await given('export-check', ...all, '--qembedding', '8w', '--dtype', 'float16')).toEqual({
    model: '',
    dtype: 'float16',
    layers: '3',
  });
});

test.each([
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
