import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where the targets that run tests leave vitest's JSON report, in their project's folder. */
export const REPORTS = {
  test: 'reports/tests.json',
  'test-native': 'reports/test-native.json',
  'test-model': 'reports/test-model.json',
};

/**
 * @typedef {import('../../nx-plugin/src/task-results.mjs').TaskResult} TaskResult
 * @typedef {import('../../nx-plugin/src/task-results.mjs').TaskResults} TaskResults
 * @typedef {{ passed: number, failures: string[], skipped: string[] }} Sum
 */

/**
 * The sum of a run: every test of every report counts as one, and so does every other task.
 *
 * @param {object} run
 * @param {TaskResults | undefined} run.results what the Nx plugin wrote, if Nx came that far
 * @param {string[]} run.targets what Nx was asked to run in every project that has it
 * @param {number} run.exitCode of Nx
 * @param {string} run.workspaceRoot
 * @returns {{ lines: string[], failed: number }} `lines` ends with `N passed, N failed`
 */
export function summarize({ results, targets, exitCode, workspaceRoot }) {
  /** @type {Sum} */
  const sum = { passed: 0, failures: [], skipped: [] };
  for (const task of results?.tasks ?? []) {
    const report = REPORTS[/** @type {keyof typeof REPORTS} */ (task.target)];
    if (report) addTests(sum, task, join(workspaceRoot, task.root, report));
    else addCheck(sum, task);
  }
  sum.failures.push(...tasksNotRun(results, targets));
  if (results === undefined) sum.failures.push('Nx ended before it ran anything; see above');
  else if (exitCode !== 0 && sum.failures.length === 0) {
    sum.failures.push(`Nx ended with exit code ${exitCode} although every task passed; see above`);
  }
  return {
    lines: [
      ...section('Skipped', sum.skipped),
      ...section('Failed', sum.failures),
      `${sum.passed} passed, ${sum.failures.length} failed`,
    ],
    failed: sum.failures.length,
  };
}

function tasksNotRun(
  /** @type {TaskResults | undefined} */ results,
  /** @type {string[]} */ targets,
) {
  const { tasks, projects } = results ?? { tasks: [], projects: {} };
  const ran = new Set(tasks.map(({ project, target }) => `${project}:${target}`));
  return Object.entries(projects)
    .flatMap(([project, has]) =>
      targets.filter((t) => has.includes(t)).map((t) => `${project}:${t}`),
    )
    .filter((task) => !ran.has(task))
    .map((task) => `${task} did not run, because what it needs failed`);
}

function hasPassed(/** @type {TaskResult} */ { status }) {
  return ['success', 'local-cache', 'local-cache-kept-existing', 'remote-cache'].includes(status);
}

function addCheck(/** @type {Sum} */ sum, /** @type {TaskResult} */ task) {
  if (hasPassed(task)) sum.passed += 1;
  else sum.failures.push(`${task.project}:${task.target}`);
}

function addTests(
  /** @type {Sum} */ sum,
  /** @type {TaskResult} */ task,
  /** @type {string} */ file,
) {
  const name = `${task.project}:${task.target}`;
  if (!existsSync(file)) {
    sum.failures.push(`${name} left no report`);
    return;
  }
  const before = sum.failures.length;
  for (const testFile of JSON.parse(readFileSync(file, 'utf8')).testResults) {
    addTestFile(sum, name, testFile);
  }
  if (!hasPassed(task) && sum.failures.length === before) {
    sum.failures.push(`${name} failed outside of its tests`);
  }
}

/**
 * One file of a vitest report, which has Jest's format.
 *
 * @typedef {{ fullName: string, status: string, meta?: { skipReason?: string } }} TestCase
 * @typedef {{ name: string, status: string, message: string, assertionResults: TestCase[] }} TestFile
 */
function addTestFile(
  /** @type {Sum} */ sum,
  /** @type {string} */ name,
  /** @type {TestFile} */ file,
) {
  for (const { fullName, status, meta } of file.assertionResults) {
    if (status === 'passed') sum.passed += 1;
    else if (status === 'failed') sum.failures.push(`${name}: ${fullName}`);
    else sum.skipped.push(`${name}: ${fullName} (${meta?.skipReason ?? status})`);
  }
  const hasFailedTest = file.assertionResults.some(({ status }) => status === 'failed');
  if (file.status === 'failed' && !hasFailedTest) {
    sum.failures.push(`${name}: ${file.name} ${file.message}`.trim());
  }
}

function section(/** @type {string} */ title, /** @type {string[]} */ entries) {
  return entries.length === 0 ? [] : [`${title}:`, ...entries.map((entry) => `  ${entry}`), ''];
}
