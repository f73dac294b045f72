/** What runners of language models let users choose of an export. */
import { choice, wholeNumber } from '@mlx-runners/runner';
import { Option, type Command } from 'commander';
import { CACHE_PLACES, LOGITS_TO_KEEP } from '../decoder-program.js';

/** What `command.opts()` then holds; `DecoderProgramOptions` says what it means. */
export interface DecoderExportOptions {
  readonly maxContextLen?: number;
  readonly prefillChunk?: number;
  readonly logitsToKeep?: (typeof LOGITS_TO_KEEP)[number];
  readonly cache?: (typeof CACHE_PLACES)[number];
  readonly useCustomSdpa?: boolean;
  readonly useCustomKvCache?: boolean;
}

/**
 * `--max-context-len`, `--prefill-chunk`, `--logits-to-keep`, `--cache`, `--no-use-custom-sdpa`,
 * `--no-use-custom-kv-cache`.
 */
export function withDecoderExportOptions<C extends Command>(command: C): C {
  return command
    .addOption(
      new Option(
        '--max-context-len <n>',
        "the most tokens of a sequence; unless given the model's own limit, with --cache in-graph at most 4096",
      ).argParser(wholeNumber('--max-context-len', { min: 1 })),
    )
    .addOption(
      new Option('--prefill-chunk <n>', 'the most tokens of one call; 512 unless given').argParser(
        wholeNumber('--prefill-chunk', { min: 1 }),
      ),
    )
    .addOption(
      choice(
        '--logits-to-keep',
        'of which tokens a call gives logits; selected unless given',
        LOGITS_TO_KEEP,
      ),
    )
    .addOption(
      choice(
        '--cache',
        'where keys and values are: given to calls, or in the graph; off-graph unless given',
        CACHE_PLACES,
      ),
    )
    .option(
      '--no-use-custom-sdpa',
      "with --cache in-graph, MLX's attention with a mask instead of one op over the cache",
    )
    .option(
      '--no-use-custom-kv-cache',
      'with --cache in-graph, write to the cache by slices instead of by one op',
    );
}
