/** `decoderExportSchema` as flags. */
import { Option, type Command } from 'commander';
import { caches, decoderExportSchema, logitsToKeep } from './decoder-export-schema.js';
import { valueOf } from './option-values.js';
import { choice } from './shared-options.js';

/**
 * `--max-context-len`, `--prefill-chunk`, `--logits-to-keep`, `--cache`, `--no-use-custom-sdpa`,
 * `--no-use-custom-kv-cache`.
 */
export function withDecoderExportOptions<C extends Command>(command: C): C {
  const { maxContextLen, prefillChunk } = decoderExportSchema.shape;
  return command
    .addOption(
      new Option(
        '--max-context-len <n>',
        "the most tokens of a sequence; the model's own limit unless given",
      ).argParser(valueOf('--max-context-len', maxContextLen)),
    )
    .addOption(
      new Option('--prefill-chunk <n>', 'the most tokens of one call; 512 unless given').argParser(
        valueOf('--prefill-chunk', prefillChunk),
      ),
    )
    .addOption(
      choice(
        '--logits-to-keep',
        'of which tokens a call gives logits; selected unless given',
        logitsToKeep,
      ),
    )
    .addOption(
      choice(
        '--cache',
        'where keys and values are: given to calls, or in the graph; off-graph unless given',
        caches,
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
