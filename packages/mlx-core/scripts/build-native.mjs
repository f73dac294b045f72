import { spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
} from 'node:fs';
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buildStamp, nativeFolder, stampFile } from './build-stamp.mjs';
import { fetchMlx } from './fetch-mlx.mjs';
import { isMainModule, runScript, ToolError } from './tool-error.mjs';

const packageRoot = join(import.meta.dirname, '..');
const cmakeFolder = join(packageRoot, 'build/cmake');
/**
 * Where CMake links to. Not `build/native`: Nx restores that from its cache with new file times, and CMake would
 * take an older library for up to date.
 */
const linkFolder = join(cmakeFolder, 'output');
const logFile = join(packageRoot, 'build/native-build.log');
/** There while the compiler runs: left behind by a killed build, whose object files may be cut short. */
const unfinishedMarker = join(cmakeFolder, 'unfinished');

/** Builds the native addon into `build/native`, compiling only what changed since the last build. */
export async function buildNative() {
  const started = Date.now();
  const { mlxRoot, openblasRoot } = fetchMlx();
  const definitions = {
    MLX_ROOT: mlxRoot,
    ...(openblasRoot && { OPENBLAS_ROOT: openblasRoot }),
    NATIVE_OUTPUT_DIR: linkFolder,
  };
  // Read before compiling: a file edited meanwhile makes the result out of date, not current.
  const stamp = buildStamp();
  prepareFolder(definitions);
  const log = createWriteStream(logFile);
  await cmakeJs('configure', definitions, log);
  await cmakeJs('build', definitions, log);
  rmSync(unfinishedMarker);
  publish(stamp);
  console.log(
    `Native addon built in ${Math.round((Date.now() - started) / 1000)} s: ${nativeFolder}`,
  );
}

/** Empties the build folder when what is in it can't be trusted or was made with other settings. */
function prepareFolder(/** @type {Record<string, string>} */ definitions) {
  const settingsFile = join(cmakeFolder, 'settings.json');
  const { CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS } = process.env;
  const settings = JSON.stringify({
    ...{ packageRoot, ...definitions, CC, CXX, CFLAGS, CXXFLAGS, LDFLAGS },
    // Decides which build system cmake-js takes.
    ninja: spawnSync('ninja', ['--version'], { encoding: 'utf8' }).stdout ?? null,
  });
  const sameSettings = existsSync(settingsFile) && readFileSync(settingsFile, 'utf8') === settings;
  if (!sameSettings || existsSync(unfinishedMarker)) {
    rmSync(cmakeFolder, { recursive: true, force: true });
  }
  mkdirSync(cmakeFolder, { recursive: true });
  writeFileSync(unfinishedMarker, '');
  writeFileSync(settingsFile, settings);
}

/**
 * Runs a command of cmake-js, which uses Ninja where there is one and Make otherwise. All output goes to the log;
 * shown are the compiler's progress and, after a failure, what it ended with.
 */
async function cmakeJs(
  /** @type {string} */ command,
  /** @type {Record<string, string>} */ definitions,
  /** @type {import('node:fs').WriteStream} */ log,
) {
  const cli = createRequire(import.meta.url).resolve('cmake-js/bin/cmake-js');
  const child = spawn(
    process.execPath,
    [
      ...[cli, command, '--directory', packageRoot, '--out', cmakeFolder],
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
  rmSync(unfinishedMarker, { force: true });
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

/** Brings what was linked to `build/native`, each file by a rename, and says last that it is complete. */
function publish(/** @type {string} */ stamp) {
  mkdirSync(nativeFolder, { recursive: true });
  rmSync(stampFile, { force: true });
  const files = readdirSync(linkFolder);
  for (const stale of readdirSync(nativeFolder).filter((file) => !files.includes(file))) {
    rmSync(join(nativeFolder, stale), { recursive: true });
  }
  for (const file of files) {
    // Renamed into place: a process that has the old library loaded keeps it.
    copyFileSync(join(linkFolder, file), join(nativeFolder, `${file}.part`));
    renameSync(join(nativeFolder, `${file}.part`), join(nativeFolder, file));
  }
  writeFileSync(stampFile, stamp);
}

if (isMainModule(import.meta.url)) await runScript(buildNative);
