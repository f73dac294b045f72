/**
 * The cache is shared with Python's huggingface_hub: what one fetched, the other finds. The package
 * is installed once, into the workspace's own cache.
 */
import { findModel, huggingFaceCache, listModels, verifyModel } from '@mlx-runners/hub';
import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  COMMIT,
  failure,
  fetchWeights,
  HubSetting,
  SOON,
  tinyRepo,
  weights,
  weightsBlob,
} from './hub-setting.js';

const VERSION = '2.4.0';
const installed = join(import.meta.dirname, '../../../.cache/huggingface_hub', VERSION);
const run = promisify(execFile);

let unavailable: string | undefined;

beforeAll(async () => {
  if (existsSync(installed)) return;
  await mkdir(dirname(installed), { recursive: true });
  const target = await mkdtemp(`${installed}-`);
  const quiet = ['--quiet', '--disable-pip-version-check', '--no-input', '--no-compile'];
  const args = ['-m', 'pip', 'install', ...quiet, '--retries', '0', '--target', target];
  try {
    await run('python3', [...args, `huggingface_hub==${VERSION}`]);
    await rename(target, installed);
  } catch (error) {
    unavailable = (error as Error).message.trim().split('\n').at(-1);
    console.warn(`SKIPPED: huggingface_hub ${VERSION} can't be installed: ${unavailable}`);
  } finally {
    await rm(target, { recursive: true, force: true });
  }
}, 120_000);

const setting = new HubSetting(tinyRepo);

beforeEach((context) => {
  if (unavailable !== undefined) context.skip(`huggingface_hub can't be installed: ${unavailable}`);
  vi.stubEnv('PYTHONPATH', installed);
  vi.stubEnv('HF_HUB_DISABLE_TELEMETRY', '1');
});

/** What a script prints, as JSON. */
async function python(script: string, input: unknown = null): Promise<unknown> {
  const program = `import json, sys\nfrom huggingface_hub import snapshot_download, hf_hub_download, scan_cache_dir\ninput = json.loads(sys.argv[1])\n${script}`;
  const { stdout } = await run('python3', ['-c', program, JSON.stringify(input)]);
  return JSON.parse(stdout);
}

const DOWNLOAD = `print(json.dumps(snapshot_download("org/model")))`;

/** What `hf cache ls` prints. */
const SCAN = `
found = scan_cache_dir()
print(json.dumps({
  "warnings": [str(w) for w in found.warnings],
  "repos": {r.repo_id: {v.commit_hash: [sorted(v.refs), len(v.files), v.size_on_disk] for v in r.revisions} for r in found.repos},
}))`;

const BYTES = Object.values(tinyRepo.files).reduce((sum, file) => sum + Buffer.byteLength(file), 0);

describe('what Python fetched', () => {
  it('is found without a request, listed and verified', async () => {
    const path = await python(DOWNLOAD);
    const requests = setting.hub.requests.length;
    expect(await findModel('org/model')).toMatchObject({ path, source: 'cache', commit: COMMIT });
    expect(setting.hub.requests.length).toBe(requests);
    expect(await verifyModel()).toMatchObject([
      {
        id: 'org/model',
        refs: ['main'],
        files: 4,
        bytes: BYTES,
        damaged: [],
        missing: [],
        unknown: [],
      },
    ]);
  });

  it('only in part is called incomplete, and completed', async () => {
    await python(`print(json.dumps(snapshot_download("org/model", allow_patterns="*.json")))`);
    setting.goOffline();
    const error = await failure(findModel('org/model'));
    expect(error.message).toMatch(
      /incomplete .*empty\.txt, model\.safetensors, onnx\/model\.onnx missing/,
    );
    vi.stubEnv('HF_HUB_OFFLINE', undefined);
    const { path } = await findModel('org/model');
    await setting.expectWhole(path);
    expect(setting.hub.paths('config.json').length).toBeLessThanOrEqual(2);
    expect(
      await python(`print(json.dumps(snapshot_download("org/model", local_files_only=True)))`),
    ).toBe(path);
  });

  it('when it is killed is completed', async () => {
    let isHalfSent: () => void = () => undefined;
    const halfSent = new Promise<void>((resolve) => (isHalfSent = resolve));
    setting.hub.faults.set('model.safetensors', (request, response) => {
      if (request.method === 'HEAD') {
        setting.hub.answerWell(request, response);
        return;
      }
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, 100_000), isHalfSent);
    });
    const child = spawn('python3', [
      '-c',
      `import json\nfrom huggingface_hub import snapshot_download\n${DOWNLOAD}`,
    ]);
    await halfSent;
    const ended = new Promise((resolve) => child.on('close', (_, signal) => resolve(signal)));
    child.kill('SIGKILL');
    expect(await ended).toBe('SIGKILL');
    setting.hub.faults.clear();
    const { path } = await findModel('org/model', SOON);
    await setting.expectWhole(path);
    expect(await python(SCAN)).toMatchObject({ warnings: [] });
  });
});

describe('what we fetched', () => {
  it('is found by Python offline, and listed without warnings', async () => {
    const { path } = await findModel('org/model');
    setting.goOffline();
    expect(await python(DOWNLOAD)).toBe(path);
    expect(
      await python(
        `print(json.dumps(hf_hub_download("org/model", "onnx/model.onnx", revision="main")))`,
      ),
    ).toBe(join(path, 'onnx/model.onnx'));
    expect(await python(SCAN)).toEqual({
      warnings: [],
      repos: { 'org/model': { [COMMIT]: [['main'], 4, BYTES] } },
    });
  });

  it('is not fetched again by Python', async () => {
    const { path } = await findModel('org/model');
    const requests = setting.hub.requests.length;
    expect(await python(DOWNLOAD)).toBe(path);
    const asked = setting.hub
      .paths()
      .slice(requests)
      .filter((path) => path.includes('org/model'));
    expect(asked).toEqual(['/api/models/org/model/revision/main']);
  });

  it('only in part is called incomplete by Python', async () => {
    await fetchWeights();
    setting.goOffline();
    const outcome = await python(`
try: print(json.dumps(snapshot_download("org/model")))
except Exception as error: print(json.dumps(f"{type(error).__name__}: {error}"))`);
    expect(outcome).toMatch(/IncompleteSnapshotError.*3 file\(s\) are missing/s);
  });

  it('when it is interrupted is no warning to Python, and completed by it', async () => {
    const abort = new AbortController();
    setting.hub.faults.set('model.safetensors', (_, response) => {
      response.writeHead(200, { 'content-length': weights.length });
      response.write(weights.subarray(0, 100_000));
    });
    const onProgress = ({ bytes }: { bytes: number }) => bytes === 100_000 && abort.abort();
    await fetchWeights({ signal: abort.signal, onProgress }).catch(() => undefined);
    expect((await setting.blobs())[0]).toContain(`${weightsBlob}.mlx-`);
    setting.hub.faults.clear();
    expect(await python(SCAN)).toMatchObject({ warnings: [], repos: { 'org/model': {} } });
    await setting.expectWhole((await python(DOWNLOAD)) as string);
    expect(await listModels()).toMatchObject([{ missing: [] }]);
  });
});

it('the cache lies where Python has it', async () => {
  const variables = ['HF_HUB_CACHE', 'HUGGINGFACE_HUB_CACHE', 'HF_HOME', 'XDG_CACHE_HOME'];
  const values = [undefined, '~/a', '$HOME/b', '${HOME}/c/../d', 'relative', '~', '/e/$NOTHING'];
  const environments = values.flatMap((value) =>
    variables.map((_, first) =>
      // The first variables are unset; the others have values of their own.
      Object.fromEntries(
        variables.map((name, i) => [
          name,
          i < first ? undefined : i === first ? value : `/other/${i}`,
        ]),
      ),
    ),
  );
  const expected = await python(
    `
import importlib, os, pathlib
from huggingface_hub import constants
for variables in input:
    for name in ${JSON.stringify(variables)}:
        os.environ.pop(name, None)
    os.environ.update(variables)
    importlib.reload(constants)
    variables["found"] = os.path.abspath(pathlib.Path(constants.HF_HUB_CACHE).expanduser())
print(json.dumps([variables["found"] for variables in input]))`,
    environments,
  );
  const ours = environments.map((environment) => {
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    return huggingFaceCache();
  });
  expect(ours).toEqual(expected);
});
