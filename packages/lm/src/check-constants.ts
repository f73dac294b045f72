/** Whether what a program publishes is true of it: an export may have been edited. */
import { isDeepStrictEqual } from 'node:util';
import { CheckpointError } from '@mlx-runners/mlx-core';
import type { ProgramModel } from '@mlx-runners/program';
import type { DecoderConstants } from './decoder-program.js';

/** @throws CheckpointError naming the first constant that is not true */
export function checkConstants(
  constants: DecoderConstants,
  { manifest: { methods, states } }: ProgramModel,
  source: string,
): void {
  const { kvHeads, headSizes, windows, cacheRows, cache } = constants;
  const layers = kvHeads.length;
  const { forward, step } = methods;
  const { T, past } = forward.dimensions;
  const facts: [name: string, isTrue: boolean][] = [
    ['headSizes', headSizes.length === layers],
    ['windows', windows.length === layers],
    ['cacheRows', (cacheRows?.length ?? 0) === (cache === 'in-graph' ? layers : 0)],
    ['cache', isDeepStrictEqual(states, statesOf(constants, states))],
    ['prefillChunk', T?.max === constants.prefillChunk],
    ['contextLength', past?.max === constants.contextLength - 1],
    ['vocabularySize', forward.outputs.logits?.shape.at(-1) === constants.vocabularySize],
    ['maxBatchSize', !step || step.dimensions.N?.max === constants.maxBatchSize],
  ];
  const wrong = facts.find(([, isTrue]) => !isTrue);
  if (!wrong) return;
  throw new CheckpointError(
    `${source} publishes a constant ${wrong[0]} that is not true of its programs.`,
  );
}

type States = ProgramModel['manifest']['states'];

/** The states that such a decoder has; dtypes are the program's own matter. */
function statesOf(
  { kvHeads, headSizes, cacheRows = [] }: DecoderConstants,
  actual: States,
): States {
  const expected: Record<string, States[string]> = {};
  for (const [layer, rows] of cacheRows.entries()) {
    for (const part of ['keys', 'values']) {
      const name = `cache.${layer}.${part}`;
      const dtype = actual[name]?.dtype ?? 'float32';
      expected[name] = { dtype, shape: [1, kvHeads[layer], rows, headSizes[layer]] };
    }
  }
  return expected;
}
