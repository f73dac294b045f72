import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { prepareWorkspace } from './prepare.mjs';
import { runNx } from './run-nx.mjs';
import { REPORTS, summarize } from './summary.mjs';
import { workspaceRoot } from './workspace.mjs';

const TARGETS = [
  ...['build-native', 'build', 'typecheck', 'lint', 'format-check', 'file-size', 'committed-text'],
  ...['sync-check', 'knip', 'publint', 'test', 'test-native', 'test-model', 'export-check'],
];

/**
 * Runs every check and every test in one Nx run and prints the sum.
 *
 * @returns {Promise<number>} the exit code: 0 only when nothing failed
 */
export async function test() {
  prepareWorkspace();
  removeReports();
  const folder = mkdtempSync(join(tmpdir(), 'mlx-runners-'));
  try {
    // The plugin in tools/nx-plugin writes there what became of each task.
    const resultsFile = join(folder, 'results.json');
    const exitCode = await runNx(
      ['run-many', `--targets=${TARGETS.join(',')}`, '--output-style=stream', '--skip-sync'],
      { output: 'shown', env: { MLX_RUNNERS_TASK_RESULTS: resultsFile } },
    );
    const results = existsSync(resultsFile)
      ? JSON.parse(readFileSync(resultsFile, 'utf8'))
      : undefined;
    const { lines, failed } = summarize({ results, targets: TARGETS, exitCode, workspaceRoot });
    console.log(`\n${lines.join('\n')}`);
    return failed === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Reports of earlier runs must not be counted; those of cached tasks come back from Nx's cache. */
function removeReports() {
  for (const group of ['packages', 'runners', 'tools']) {
    const entries = readdirSync(join(workspaceRoot, group), { withFileTypes: true });
    for (const project of entries.filter((entry) => entry.isDirectory())) {
      for (const report of Object.values(REPORTS)) {
        rmSync(join(workspaceRoot, group, project.name, report), { force: true });
      }
    }
  }
}
