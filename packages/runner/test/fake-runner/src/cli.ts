import { setTimeout } from 'node:timers/promises';
import { CheckpointError, NativeError, UsageError } from '@mlx-runners/mlx-core/errors';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
import { createProgram, runProgram } from '../../../src/command-line.js';
import { addGoldenCommand } from '../../../src/golden.js';
import { interruptSignal } from '../../../src/interruption.js';
import { addModelsCommand } from '../../../src/models.js';
import { audioProgress } from '../../../src/progress.js';
import {
  withLogOptions,
  withModelOptions,
  withOutputOptions,
  withSeedOption,
} from '../../../src/shared-options.js';
import { userPath } from '../../../src/user-path.js';

/** A runner whose commands fail in every way that a command can fail. */
const program = createProgram('fake', import.meta.url);
withModelOptions(program, { defaultModel: 'fake/model' });
withSeedOption(withLogOptions(program));
withOutputOptions(program, { formats: ['text', 'srt'], defaultFormat: 'text' });
program.argument('<files...>').action((files: string[], options: object) => {
  process.stdout.write(`${JSON.stringify({ files: files.map(userPath), options })}\n`);
});

addGoldenCommand(program, []);

addModelsCommand(
  program,
  {
    models: { 'org/tiny': { aliases: ['tiny'], license: 'MIT', files: ['config.json', 'a.bin'] } },
  },
  {
    checkConfig(config) {
      const { model_type: type } = config as { model_type: string };
      if (type !== 'tiny') throw new CheckpointError(`Unknown model_type ${type}.`);
    },
  },
);

program
  .command('fail')
  .argument('<how>')
  .action((how: string) => {
    if (how === 'usage') throw new UsageError('--x and --y\n  exclude each other.');
    if (how === 'checkpoint') throw new CheckpointError('No tensor a.b.', { cause: cause() });
    if (how === 'native') throw new NativeError('No library:\n  tried here,\n  and \u001bthere');
    if (how === 'type') (undefined as unknown as { x(): void }).x();
    if (how === 'code') process.exitCode = 1;
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- libraries do such things
    if (how === 'text') throw 'just text';
    if (how === 'late') queueMicrotask(() => void Promise.reject(new Error('nobody waited')));
    return how === 'late' ? setTimeout(10_000) : undefined;
  });

function cause(): Error {
  return new Error('the cause');
}

program.command('flood').action(async () => {
  for (let line = 0; line < 200_000; line++) {
    if (!process.stdout.write(`line ${line}\n`)) await setTimeout(0);
  }
});

program
  .command('work')
  .argument('<file>')
  .option('--stubborn')
  .action(async (file: string, { stubborn }: { stubborn?: boolean }) => {
    using progress = audioProgress('work');
    progress.update(1, 2);
    // Content that never ends: the file stays half-written until the interrupt.
    const chunks = (async function* () {
      yield 'begun';
      process.stdout.write('working\n');
      if (stubborn) {
        await setTimeout(2000);
        process.stdout.write('still working\n');
      }
      await setTimeout(20_000, undefined, stubborn ? {} : { signal: interruptSignal() }).finally(
        () => process.stdout.write('unwound\n'),
      );
    })();
    await writeWholeFile(file, chunks);
  });

await runProgram(program);
