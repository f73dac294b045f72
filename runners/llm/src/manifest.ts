import { parseRunnerManifest } from '@mlx-runners/runner/library';
import content from '../runner.json' with { type: 'json' };

/** runner.json of this package. */
export const manifest = parseRunnerManifest(content);
