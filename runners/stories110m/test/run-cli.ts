import { cliOf } from '@mlx-runners/test-fixtures';

export const { runCli } = cliOf(new URL('../dist/cli.js', import.meta.url));
