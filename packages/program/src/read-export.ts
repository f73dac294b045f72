/** Reading what `exportModel` wrote, which is trusted in nothing. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { mx, ProgramError, UsageError, type MxArray } from '@mlx-runners/mlx-core';
import { checkOptions } from '@mlx-runners/mlx-core/check-options';
import { quoted, throwIfAborted } from '@mlx-runners/mlx-core/errors';
import { z } from 'zod';
import { fileFacts, fileSize, parsed, readText, sha256 } from './files.js';
import {
  formatVersion,
  manifestFile,
  manifestName,
  programFile,
  repeated,
  type Manifest,
  type ProgramFile,
} from './format.js';
import { abortSignal } from './option-schemas.js';
import { signatureOf } from './signature.js';

export interface ReadExport {
  manifest: Manifest;
  /** In the order of the manifest's methods. */
  programs: ProgramFile[];
}

/** Whether a folder holds an exported model, as far as its name for files tells. */
export function isExport(folder: string): boolean {
  return existsSync(join(checkedFolder('isExport()', folder), manifestName));
}

/**
 * Reads the folder's manifest and programs.
 *
 * @throws ProgramError when a file is missing, of another version, changed since the export, or not what
 *   it should be
 */
export function readExport(folder: string): ReadExport {
  const manifest = readManifest(checkedFolder('readExport()', folder));
  const programs = Object.keys(manifest.methods).map((method) =>
    readProgram(folder, manifest, method),
  );
  checkStates(folder, manifest, programs);
  return { manifest, programs };
}

/** @param call what is given the folder, for the message */
export function checkedFolder(call: string, folder: unknown): string {
  if (typeof folder === 'string' && folder !== '') return folder;
  throw new UsageError(
    `${call} takes the path of a folder, not ${folder === '' ? 'an empty text' : quoted(folder)}.`,
  );
}

// Far more than any model's, and little enough to be read whole.
const mostManifestBytes = 64 << 20;
const mostProgramBytes = 256 << 20;

function readManifest(folder: string): Manifest {
  const path = join(folder, manifestName);
  if (fileSize(folder) !== undefined) {
    throw new ProgramError(`${folder} is a file; an exported model is a folder.`);
  }
  const text = readText(path, mostManifestBytes);
  const version = versionOf(text);
  if (typeof version === 'number' && version !== formatVersion) {
    throw new ProgramError(
      `${path} has format version ${version}; this version reads ${formatVersion}. Export the model again.`,
    );
  }
  const manifest = parsed(text, manifestFile, path, 'the manifest of an exported model');
  if (manifest.sha256 !== manifestHash(manifest)) {
    throw new ProgramError(`${path} was changed since it was exported.`);
  }
  return manifest;
}

function versionOf(text: string): unknown {
  try {
    return (JSON.parse(text) as { formatVersion?: unknown } | null)?.formatVersion;
  } catch {
    return undefined;
  }
}

export function manifestHash(manifest: Omit<Manifest, 'sha256'>): string {
  return sha256(JSON.stringify({ ...manifest, sha256: undefined }));
}

function readProgram(folder: string, manifest: Manifest, method: string): ProgramFile {
  const { program: name, ...signature } = manifest.methods[method];
  const path = listed(folder, name, manifest);
  const text = readText(path, Math.min(manifest.files[name].bytes, mostProgramBytes));
  if (sha256(text) !== manifest.files[name].sha256) {
    throw new ProgramError(`${path} was changed since it was exported.`);
  }
  const program = parsed(text, programFile, path, 'an exported program');
  if (program.method !== method) {
    throw new ProgramError(`${path} holds ${quoted(program.method)}, not ${quoted(method)}.`);
  }
  if (!isDeepStrictEqual(signature, signatureOf(program))) {
    throw new ProgramError(
      `${join(folder, manifestName)} has other inputs, outputs or dimensions of ${method} than ${path}.`,
    );
  }
  return program;
}

/** The states of the manifest are those that its methods have, all of them. */
function checkStates(folder: string, { states }: Manifest, programs: readonly ProgramFile[]): void {
  const used = new Set(
    programs.flatMap(({ traces }) => traces.flatMap((trace) => trace.states.map(nameOf))),
  );
  const names = [...used].filter((name) => !Object.hasOwn(states, name));
  names.push(...Object.keys(states).filter((name) => !used.has(name)));
  if (names.length === 0) return;
  throw new ProgramError(
    `${join(folder, manifestName)} and the programs don't both have the state ${quoted(names[0])}.`,
  );
}

function nameOf({ name }: { name: string }): string {
  return name;
}

/** The path of a file that the manifest lists. */
function listed(folder: string, name: string, { files }: Manifest): string {
  if (!Object.hasOwn(files, name)) {
    throw new ProgramError(`${join(folder, manifestName)} names ${name}, which is no file of it.`);
  }
  return join(folder, name);
}

/** The contents of the weights' files, by name. Mapped, so that nothing is read. */
export function readConstants(folder: string, manifest: Manifest): Map<string, MxArray> {
  const again = repeated(manifest.weights);
  if (again !== undefined) {
    throw new ProgramError(`${join(folder, manifestName)} has the weights ${again} twice.`);
  }
  const constants = new Map<string, MxArray>();
  for (const name of manifest.weights) {
    const path = listed(folder, name, manifest);
    if (fileSize(path) !== manifest.files[name].bytes) {
      throw new ProgramError(`${path} is missing or cut off.`);
    }
    for (const [tensor, array] of mx.loadSafetensors(path).tensors) {
      if (constants.has(tensor)) {
        throw new ProgramError(
          `${path} has ${quoted(tensor)}, as another file of the weights has.`,
        );
      }
      constants.set(tensor, array);
    }
  }
  return constants;
}

const verifyOptions = z.strictObject({ signal: abortSignal() });

/**
 * Reads all files of an export.
 *
 * @throws ProgramError for a file that is missing or other than the manifest says, AbortedError when the
 *   signal fires
 */
export async function verifyFiles(
  folder: string,
  options: { signal?: AbortSignal } = {},
): Promise<void> {
  const { signal } = checkOptions('verifyFiles()', verifyOptions, options);
  const { manifest } = readExport(folder);
  for (const [name, { bytes, sha256: hash }] of Object.entries(manifest.files)) {
    throwIfAborted(signal);
    const facts = await fileFacts(join(folder, name), signal);
    if (facts.bytes !== bytes || facts.sha256 !== hash) {
      throw new ProgramError(`${join(folder, name)} is not the file that was exported.`);
    }
  }
}
