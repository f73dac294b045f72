/** Where in the model's source an op was called. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

// Layers and ops say what is computed; the line that uses them says why.
const library = /[\\/](?:packages|@mlx-runners)[\\/](?:mlx-core|nn|program)[\\/](?:src|dist)[\\/]/;
const frame = /\(?((?:file:\/\/)?[^()\s][^()]*):(\d+):\d+\)?$/;

// Deep enough for layers in layers.
const mostFrames = 40;
const fewFrames = 10;

interface Place {
  file: string;
  line: number;
}

function places(stack: string): Place[] {
  return stack.split('\n').flatMap((text) => {
    const found = frame.exec(text.trim().replace(/^at (?:async )?/, ''));
    if (!found) return [];
    const [, path, line] = found;
    const at = path.slice(path.lastIndexOf(' (') + 1);
    if (at.startsWith('node:')) return [];
    return [{ file: at.startsWith('file:') ? fileURLToPath(at) : at, line: Number(line) }];
  });
}

const packages = new Map<string, string>();

/** A file as its package names it, which is the same on every machine. */
function packagePath(file: string): string {
  let found = packages.get(file);
  if (found === undefined) packages.set(file, (found = findPackagePath(file)));
  return found;
}

function findPackagePath(file: string): string {
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    const path = join(folder, 'package.json');
    if (!existsSync(path)) continue;
    const { name } = JSON.parse(readFileSync(path, 'utf8')) as { name?: string };
    if (name === undefined) continue;
    return [name, ...relative(folder, file).split(sep)].join('/');
  }
  return file.slice(file.lastIndexOf(sep) + 1);
}

const known = new Map<string, string>();

/** The innermost line that is not of the libraries: `@mlx-runners/whisper/src/model.ts:71`. */
export function callSite(): string {
  // Mapping lines back to TypeScript takes a hundred times as long as finding where a call is.
  const key = rawCallSite();
  let place = known.get(key);
  if (place === undefined) known.set(key, (place = mappedCallSite()));
  return place;
}

/** The innermost line that an error passed which is not of the libraries, if its stack has one. */
export function siteOf({ stack: text = '' }: Error): string | undefined {
  const place = places(text).find(({ file }) => !library.test(file));
  return place && `${packagePath(place.file)}:${place.line}`;
}

function rawCallSite(): string {
  // Put back as it was, whoever set it: never called here.
  const before = Object.getOwnPropertyDescriptor(Error, 'prepareStackTrace');
  Error.prepareStackTrace = (_, sites) => sites;
  try {
    // Few frames are enough mostly, and cost less.
    const found = modelSite(stack(fewFrames)) ?? modelSite(stack(mostFrames));
    return found ?? positionOf((stack(mostFrames) as NodeJS.CallSite[]).at(-1));
  } finally {
    if (before) Object.defineProperty(Error, 'prepareStackTrace', before);
    else Reflect.deleteProperty(Error, 'prepareStackTrace');
  }
}

function modelSite(sites: unknown): string | undefined {
  for (const site of sites as readonly NodeJS.CallSite[]) {
    const file = site.getFileName() ?? '';
    if (file !== '' && !isLibrary(file)) return positionOf(site);
  }
  return undefined;
}

const libraryFiles = new Map<string, boolean>();

function isLibrary(file: string): boolean {
  let is = libraryFiles.get(file);
  if (is === undefined) libraryFiles.set(file, (is = library.test(file)));
  return is;
}

function positionOf(site: NodeJS.CallSite | undefined): string {
  return site ? [site.getFileName(), site.getLineNumber(), site.getColumnNumber()].join(':') : '';
}

function mappedCallSite(): string {
  const found = places(String(stack()));
  const { file, line } = found.find((place) => !library.test(place.file)) ?? found.at(-1) ?? {};
  return file === undefined ? 'unknown' : `${packagePath(file)}:${line}`;
}

function stack(frames = mostFrames): unknown {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = frames;
  const { stack: found } = new Error();
  Error.stackTraceLimit = stackTraceLimit;
  return found;
}
