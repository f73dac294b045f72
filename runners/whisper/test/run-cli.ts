import { cliOf, type CliResult } from '@mlx-runners/test-fixtures';

export const { runCli, startCli } = cliOf(new URL('../dist/cli.js', import.meta.url));
export type { CliResult };
