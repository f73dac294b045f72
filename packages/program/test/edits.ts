/** Changing exported files so that their hashes fit again: what a malicious export would do. */
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Manifest, ProgramFile } from '@mlx-runners/program';
import { signatureOf } from '../src/signature.js';

const sha256 = (text: string | Buffer): string => createHash('sha256').update(text).digest('hex');

type Change = (trace: ProgramFile['traces'][number]) => unknown;

/** Changes the manifest, and the hash of it. */
export function editManifest(folder: string, change: (manifest: Manifest) => unknown): void {
  edit(folder, 'manifest.json', (json) => change(json as Manifest));
}

/** Changes the first trace of a program, and the hashes of it. */
export function editTrace(folder: string, method: string, change: Change): void {
  edit(folder, `programs/${method}.json`, (json) => change((json as ProgramFile).traces[0]));
}

/** Changes the first trace of a program, and what the manifest says of it. */
export function editMethod(folder: string, method: string, change: Change): void {
  editTrace(folder, method, change);
  const text = readFileSync(join(folder, `programs/${method}.json`), 'utf8');
  editManifest(folder, (manifest) => describe(manifest, JSON.parse(text) as ProgramFile));
}

/** Has a manifest say of a method what its program says. */
export function describe(manifest: Manifest, program: ProgramFile): void {
  Object.assign(manifest.methods[program.method], signatureOf(program));
}

function edit(folder: string, file: string, change: (json: unknown) => unknown): void {
  const path = join(folder, file);
  const json = JSON.parse(readFileSync(path, 'utf8')) as unknown;
  change(json);
  writeFileSync(path, JSON.stringify(json));
  rehash(folder, file);
}

/** Has the manifest's hashes fit a file that was changed. */
export function rehash(folder: string, file: string): void {
  const manifest = join(folder, 'manifest.json');
  const files = { [file]: readFileSync(join(folder, file)) };
  writeFileSync(manifest, rehashed(readFileSync(manifest, 'utf8'), files));
}

/** The manifest's text with the hashes of files as they are now; unchanged when it can't have any. */
export function rehashed(text: string, files: Readonly<Record<string, Buffer>>): string {
  try {
    const manifest = JSON.parse(text) as Partial<Manifest> & Pick<Manifest, 'files'>;
    delete manifest.sha256;
    for (const [file, bytes] of Object.entries(files)) {
      if (!Object.hasOwn(manifest.files, file)) continue;
      Object.assign(manifest.files[file], { sha256: sha256(bytes), bytes: bytes.length });
    }
    return JSON.stringify({ ...manifest, sha256: sha256(JSON.stringify(manifest)) });
  } catch {
    // No JSON, no manifest, or nested too deeply.
    return text;
  }
}
