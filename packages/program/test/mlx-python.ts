/** MLX for Python, of the version that the addon has; installed once, into the workspace's own cache. */
import { execFile } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { mx } from '@mlx-runners/mlx-core';
import type { Arrays, Sizes } from '@mlx-runners/program';

const run = promisify(execFile);
const version = mx.buildInfo().mlx;
const installed = join(import.meta.dirname, '../../../.cache/mlx-python', version);
// Without the extra there is no backend on Linux.
const requirement = process.platform === 'linux' ? `mlx[cpu]==${version}` : `mlx==${version}`;

/** Why it can't be had, if so. */
export async function installMlx(): Promise<string | undefined> {
  if (existsSync(installed)) return undefined;
  await mkdir(dirname(installed), { recursive: true });
  const target = await mkdtemp(`${installed}-`);
  const quiet = ['--quiet', '--no-color', '--no-input', '--disable-pip-version-check'];
  const wheels = ['--retries', '0', '--only-binary', ':all:', '--no-compile', '--target', target];
  try {
    await run('python3', ['-m', 'pip', 'install', ...quiet, ...wheels, requirement]);
    await rename(target, installed);
    return undefined;
  } catch (error) {
    // Another process may have been faster.
    if (existsSync(installed)) return undefined;
    const { stderr, message } = error as Error & { stderr?: string };
    return `${requirement} can't be installed: ${(stderr || message).trim().slice(0, 500)}`;
  } finally {
    await rm(target, { recursive: true, force: true });
  }
}

export interface PythonCall {
  inputs: Arrays;
  /** Those that no input's shape has. */
  lengths?: Sizes;
}

const program = `
import json, sys
import mlx.core as mx
folder, scratch, method, calls = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
about = json.load(open(folder + "/mlxfn.json"))["methods"][method]
assert mx.__version__ == json.load(open(folder + "/mlxfn.json"))["mlx"]
function = mx.import_function(folder + "/" + about["file"])
dtypes = lambda name: getattr(mx, name)
states = {name: mx.zeros(each["shape"], dtypes(each["dtype"])) for name, each in about["states"].items()}
results = {}
for number, lengths in enumerate(calls):
    inputs = mx.load(f"{scratch}/inputs.{number}.safetensors")
    given = {name: mx.zeros(length) for name, length in lengths.items()}
    names = [*about["outputs"], *about["nextStates"]]
    made = dict(zip(names, function(**inputs, **given, **states), strict=True))
    states |= {name: made[name] for name in about["nextStates"] if name in states}
    results |= {f"{number}.{name}": made[name] for name in names}
mx.save_safetensors(scratch + "/results.safetensors", results)
`;

/** Calls a method one time after another, with states that go from call to call: outputs, then states. */
export async function callInPython(
  folder: string,
  scratch: string,
  method: string,
  calls: readonly PythonCall[],
): Promise<Arrays[]> {
  for (const [number, { inputs }] of calls.entries()) {
    mx.saveSafetensors(join(scratch, `inputs.${number}.safetensors`), inputs);
  }
  const path = join(scratch, 'call.py');
  writeFileSync(path, program);
  const lengths = JSON.stringify(calls.map((call) => call.lengths ?? {}));
  await run('python3', [path, folder, scratch, method, lengths], {
    env: { ...process.env, PYTHONPATH: installed },
  });
  const { tensors } = mx.loadSafetensors(join(scratch, 'results.safetensors'));
  return calls.map((_, number) => {
    const own = [...tensors].filter(([name]) => name.startsWith(`${number}.`));
    return Object.fromEntries(own.map(([name, array]) => [name.replace(/^\d+\./, ''), array]));
  });
}
