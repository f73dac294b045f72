import { renameSync, writeFileSync } from 'node:fs';
import { readCachedProjectGraph } from '@nx/devkit';

/**
 * What `npm test` reads instead of Nx's coloured text. The caller names the file in MLX_RUNNERS_TASK_RESULTS; without
 * it none is written.
 *
 * - `tasks`: every task that ran, with Nx's own status words (`success`, `failure`, `local-cache` …);
 * - `projects`: every project's targets. A task that Nx gave up because another failed is among these only.
 *
 * @typedef {{ project: string, root: string, target: string, status: string }} TaskResult
 * @typedef {{ tasks: TaskResult[], projects: Record<string, string[]> }} TaskResults
 *
 * @type {import('@nx/devkit').PostTasksExecution}
 */
export function postTasksExecution(_options, context) {
  const file = process.env.MLX_RUNNERS_TASK_RESULTS;
  if (!file) return;
  const tasks = Object.values(context.taskResults).map(({ task, status }) => ({
    project: task.target.project,
    root: task.projectRoot,
    target: task.target.target,
    status,
  }));
  const nodes = Object.values(readCachedProjectGraph().nodes);
  const projects = Object.fromEntries(
    nodes.map(({ name, data }) => [name, Object.keys(data.targets ?? {})]),
  );
  // Renamed into place, so that a reader never sees half of it.
  writeFileSync(`${file}.part`, JSON.stringify({ tasks, projects }));
  renameSync(`${file}.part`, file);
}
