/** `--qlinear` and its relatives: what `export` and `export-check` quantise. */
import { UsageError } from '@mlx-runners/mlx-core/errors';
import {
  packingOf,
  quantisationTypes,
  type ExportDescription,
  type QuantisationType,
  type WeightQuantisation,
} from '@mlx-runners/program';
import type { Command } from 'commander';
import { oneOf } from './option-values.js';
import { choice } from './shared-options.js';

export interface QuantisationOptions {
  qlinear?: QuantisationType;
  qlinearGroupSize?: number;
  qlinearEncoder?: QuantisationType;
  qlinearEncoderGroupSize?: number;
  qembedding?: QuantisationType;
  qembeddingGroupSize?: number;
}

export const quantisationNames: ReadonlySet<string> = new Set<keyof QuantisationOptions>([
  ...(['qlinear', 'qlinearGroupSize', 'qlinearEncoder', 'qlinearEncoderGroupSize'] as const),
  ...(['qembedding', 'qembeddingGroupSize'] as const),
]);

const groupSizes = ['16', '32', '64', '128'];

/**
 * `--qlinear`, `--qembedding`, and `--qlinear-encoder` where a runner has an encoder, each with a group size.
 */
export function withQuantisationOptions<C extends Command>(
  command: C,
  { encoder = false }: { encoder?: boolean } = {},
): C {
  addQuantisation(command, '--qlinear', 'quantise linear layers');
  if (encoder) {
    addQuantisation(
      command,
      '--qlinear-encoder',
      "quantise the encoder's; as --qlinear unless given",
    );
  }
  addQuantisation(
    command,
    '--qembedding',
    'quantise embeddings, and the head that is tied to them',
  );
  return command;
}

function addQuantisation(command: Command, flag: string, description: string): void {
  command
    .addOption(choice(flag, description, quantisationTypes))
    .addOption(
      choice(
        `${flag}-group-size`,
        `weights that share a scale: 32 (unless given), 64 or 128 of 4w and 8w`,
        groupSizes,
      ).argParser((value) => Number(oneOf(`${flag}-group-size`, groupSizes)(value))),
    );
}

/**
 * The same as a description has it.
 *
 * @throws UsageError for group sizes without a quantisation, and those that it doesn't have
 */
export function quantisationOf(
  options: QuantisationOptions,
): Pick<ExportDescription, 'qlinear' | 'qlinearEncoder' | 'qembedding'> {
  const { qlinear, qlinearEncoder, qembedding } = options;
  return {
    qlinear: chosen('--qlinear', qlinear, options.qlinearGroupSize),
    qlinearEncoder: chosen('--qlinear-encoder', qlinearEncoder, options.qlinearEncoderGroupSize),
    qembedding: chosen('--qembedding', qembedding, options.qembeddingGroupSize),
  };
}

function chosen(
  flag: string,
  type: QuantisationType | undefined,
  groupSize: number | undefined,
): WeightQuantisation | undefined {
  if (type === undefined && groupSize !== undefined) {
    throw new UsageError(`${flag}-group-size goes with ${flag}.`);
  }
  if (type === undefined) return undefined;
  // Now, before a model is loaded.
  packingOf({ type, groupSize });
  return { type, groupSize };
}
