import { spawn, spawnSync } from 'node:child_process';
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { withLock } from './file-lock.mjs';
import { ToolError } from './tool-error.mjs';

const packageRoot = join(import.meta.dirname, '..');

/**
 * @typedef {object} CMakeBuild
 * @property {string} folder where CMake works, incrementally
 * @property {Record<string, string>} definitions CMake variables; other ones than last time begin afresh
 * @property {string} target
 * @property {string} logFile gets all output
 * @property {() => void} [publish] takes the result away, before another build may begin
 */

/** Configures and builds a target of CMakeLists.txt, after other builds in its folder. */
export async function cmakeBuild(/** @type {CMakeBuild} */ build) {
  const { folder, definitions, logFile, publish } = build;
  await withLock(folder, onWait, async () => {
    prepareFolder(folder, definitions);
    const log = createWriteStream(logFile);
    await cmakeJs('configure', build, log);
    await cmakeJs('build', build, log);
    rmSync(unfinishedMarker(folder), { force: true });
    publish?.();
  });

  function onWait(/** @type {string} */ pid) {
    console.error(`Another build runs in ${folder} (process ${pid}); waiting for it.`);
  }
}

/** There while the compiler runs: the next build finds it only after a killed one, whose object files may be cut short. */
function unfinishedMarker(/** @type {string} */ folder) {
  return join(folder, 'unfinished');
}

/** Empties the build folder when what is in it can't be trusted or was made with other settings. */
function prepareFolder(
  /** @type {string} */ folder,
  /** @type {Record<string, string>} */ definitions,
) {
  const settingsFile = join(folder, 'settings.json');
  const { CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS } = process.env;
  const settings = JSON.stringify({
    ...{ packageRoot, ...definitions, CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS },
    // Decides which build system cmake-js takes.
    ninja: spawnSync('ninja', ['--version'], { encoding: 'utf8' }).stdout ?? null,
  });
  const sameSettings = existsSync(settingsFile) && readFileSync(settingsFile, 'utf8') === settings;
  if (!sameSettings || existsSync(unfinishedMarker(folder))) {
    discard(folder);
  }
  mkdirSync(folder, { recursive: true });
  writeFileSync(unfinishedMarker(folder), '');
  writeFileSync(settingsFile, settings);
}

/** Removes a folder, in which compilers that outlived a killed build may still be writing: they keep the old one. */
function discard(/** @type {string} */ folder) {
  if (!existsSync(folder)) return;
  const old = `${folder}.old-${process.pid}`;
  renameSync(folder, old);
  try {
    rmSync(old, { recursive: true, maxRetries: 5 });
  } catch (error) {
    console.error(`${old} could not be removed: ${error}`);
  }
}

/**
 * Runs a command of cmake-js, which uses Ninja where there is one and Make otherwise. All output goes to the log;
 * shown are the compiler's progress and, after a failure, what it ended with.
 */
async function cmakeJs(
  /** @type {string} */ command,
  /** @type {CMakeBuild} */ { folder, definitions, target, logFile },
  /** @type {import('node:fs').WriteStream} */ log,
) {
  const cli = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const child = spawn(
    process.execPath,
    [
      ...[cli, command, '--directory', packageRoot, '--out', folder, '--target', target],
      ...['--parallel', String(availableParallelism())],
      ...Object.entries(definitions).map(([name, value]) => `--CD${name}=${value}`),
    ],
    // A process group of its own: a signal must reach the compilers too, not only cmake-js.
    { detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const stop = stopOnSignals(child);
  /** @type {string[]} */
  const lines = [];
  const report = progressReport();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      log.write(`${line}\n`);
      report(line);
    });
  }
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  stop();
  if (code === 0) return;
  // The compiler itself gave up, so what it had finished is whole.
  rmSync(unfinishedMarker(folder), { force: true });
  throw new ToolError(
    `${failureExcerpt(lines)}\n\nThe native build failed. Whole output: ${logFile}`,
  );
}

function stopOnSignals(/** @type {import('node:child_process').ChildProcess} */ child) {
  const signals = /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP']);
  const stop = (/** @type {NodeJS.Signals} */ signal) => {
    if (child.pid) process.kill(-child.pid, signal);
    // The marker stays: the next build starts afresh.
    process.exit(1);
  };
  for (const signal of signals) process.on(signal, stop);
  return () => signals.forEach((signal) => process.off(signal, stop));
}

/** Prints `[n/m]` (Ninja) and `[n%]` (Make) in steps of a tenth. */
function progressReport() {
  let tenths = -1;
  return (/** @type {string} */ line) => {
    const match = /^\[\s*(\d+)(?:\/(\d+)|%)\]\s*(.*)/.exec(line);
    if (!match) return;
    const [, done, total = '100', what] = match;
    const reached = Math.floor((10 * Number(done)) / Number(total));
    if (reached > tenths) console.log(`  ${reached * 10} % ${what}`);
    tenths = Math.max(tenths, reached);
  };
}

/** From the first failed command on, or else the last lines. */
function failureExcerpt(/** @type {string[]} */ lines) {
  const failed = lines.findIndex((line) => /^FAILED:|\berror:|CMake Error/.test(line));
  return (failed < 0 ? lines.slice(-40) : lines.slice(failed, failed + 60)).join('\n');
}
