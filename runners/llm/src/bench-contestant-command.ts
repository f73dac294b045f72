/** Our side of the bench, a process of its own as all others are, so that its memory can be told from theirs. */
import { createInterface } from 'node:readline';
import { mx } from '@mlx-runners/mlx-core';
import type { LanguageModel } from '@mlx-runners/lm';
import { interruptSignal, peakBytes, wholeNumber } from '@mlx-runners/runner';
import { precisions } from '@mlx-runners/runner/library';
import { Argument, type Command } from 'commander';
import { requestSchema, type Answer, type Greeting } from './bench-contestants.js';
import { load } from './pipeline.js';

const COMMAND = 'bench-contestant';

/** The arguments of this command line that start it. */
export function contestantArguments(
  model: string,
  precision: (typeof precisions)[number],
  threads: number,
): string[] {
  return [process.argv[1], COMMAND, model, precision, String(threads)];
}

/** What `bench` starts; nobody else needs it. */
export function addBenchContestantCommand(program: Command): void {
  program
    .command(COMMAND, { hidden: true })
    .argument('<model>')
    .addArgument(new Argument('<precision>').choices(precisions))
    .argument('<threads>', 'CPU threads', wholeNumber('threads', { min: 1, max: 1024 }))
    .action(run);
}

async function run(
  path: string,
  precision: (typeof precisions)[number],
  threads: number,
): Promise<void> {
  mx.setThreads(threads);
  const started = performance.now();
  await using model = await load(path, { device: 'cpu', precision, signal: interruptSignal() });
  say({ runsOn: 'cpu', loadSeconds: (performance.now() - started) / 1000 });
  for await (const line of createInterface({ input: process.stdin })) {
    say(await continued(model, requestSchema.parse(JSON.parse(line))));
  }
}

function say(fields: Greeting | Answer): void {
  process.stdout.write(`${JSON.stringify(fields)}\n`);
}

async function continued(
  model: LanguageModel,
  { ids, maxTokens }: { ids: number[]; maxTokens: number },
): Promise<Answer> {
  const options = { temperature: 0, ignoreStopIds: true, maxTokens, signal: interruptSignal() };
  const started = performance.now();
  const { tokens, usage } = await model.generate(ids, options).result();
  const seconds = (performance.now() - started) / 1000;
  // Texts begin with the same token in some models; more in common would be less to read.
  if (usage.cachedTokens > 1) throw new Error('The prompt was known from the text before.');
  return {
    ids: tokens.map(({ id }) => id),
    firstSeconds: usage.prefillSeconds,
    seconds,
    peakBytes: peakBytes(),
  };
}
