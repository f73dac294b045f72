import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'vite';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nativeFolder } from '../../../packages/mlx-core/scripts/build-stamp.mjs';
import { workspaceRoot } from '../src/published-packages.mjs';

/** A program that uses the library, with all of it in one file, as users' bundlers make them. */
const PROGRAM = `
import { load, formatTranscript, CheckpointError, HubError, UsageError } from '@mlx-runners/whisper';
const segments = [{ start: 0, end: 1, text: ' Hi' }];
console.log(formatTranscript({ text: 'Hi', language: 'en', duration: 1, segments }, 'srt'));
const failure = (id) => load(id).catch((error) => error);
const [misuse, absent, broken] = await Promise.all(['', 'whisper-base', process.argv[2]].map(failure));
console.log(misuse instanceof UsageError, absent instanceof HubError, broken instanceof CheckpointError);
console.log(misuse.code, absent.code, broken.code);
`;

const root = realpathSync(mkdtempSync(join(tmpdir(), 'mlx-runners-library-')));
afterAll(() => rmSync(root, { recursive: true }));

const bundle = join(root, 'out/program.mjs');
const modules = [];
beforeAll(async () => {
  writeFileSync(join(root, 'program.mjs'), PROGRAM);
  mkdirSync(join(root, 'broken'));
  writeFileSync(join(root, 'broken/config.json'), '{}');
  await build({
    configFile: false,
    root,
    logLevel: 'error',
    resolve: {
      alias: { '@mlx-runners/whisper': join(workspaceRoot, 'runners/whisper/dist/index.js') },
    },
    ssr: { noExternal: true, resolve: { mainFields: ['main'] } },
    build: { ssr: join(root, 'program.mjs'), outDir: join(root, 'out'), target: 'node20' },
    plugins: [{ name: 'modules', moduleParsed: ({ id }) => void modules.push(id) }],
  });
}, 60_000);

test('bundled as an ES module it has nothing of command lines in it', () => {
  const packages = modules.map((id) => /node_modules\/((@[^/]+\/)?[^/]+)/.exec(id)?.[1]);
  const used = [...new Set(packages.filter((name) => name !== undefined))].sort();
  expect(used).toEqual([
    '@huggingface/jinja',
    '@huggingface/tokenizers',
    'fflate',
    'wavefile',
    'zod',
  ]);
  expect(readFileSync(bundle, 'utf8')).not.toContain(workspaceRoot);
});

test('and works where nothing else is', () => {
  const { stdout, stderr } = spawnSync(process.execPath, [bundle, join(root, 'broken')], {
    cwd: '/',
    // Offline, and with empty caches.
    env: { HOME: root, HF_HUB_OFFLINE: '1', MLX_RUNNERS_NATIVE: nativeFolder },
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  expect(stdout.split('\n')).toEqual([
    ...['1', '00:00:00,000 --> 00:00:01,000', 'Hi', ''],
    ...['true true true', 'USAGE HUB CHECKPOINT', ''],
  ]);
});
