/** Transcripts as text, and as files. */
import { randomUUID } from 'node:crypto';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import type { Transcript } from '../transcript.js';
import { formatJson } from './json.js';
import { formatSrt } from './srt.js';
import { formatTxt } from './txt.js';
import { formatVtt } from './vtt.js';

const WRITERS = { txt: formatTxt, srt: formatSrt, vtt: formatVtt, json: formatJson };

export type TranscriptFormat = keyof typeof WRITERS;

export const TRANSCRIPT_FORMATS = Object.keys(WRITERS) as TranscriptFormat[];

export interface WriteOutputsOptions {
  /** Made where it does not exist. */
  outputDir: string;
  /** File name without extension. */
  baseName: string;
  formats: readonly TranscriptFormat[];
}

/**
 * A transcript as the text of a file.
 *
 * @throws UsageError for an unknown format.
 */
export function formatTranscript(transcript: Transcript, format: TranscriptFormat): string {
  if (!Object.hasOwn(WRITERS, format)) {
    throw new UsageError(
      `Unknown output format '${format}'; there are ${TRANSCRIPT_FORMATS.join(', ')}.`,
    );
  }
  return WRITERS[format](transcript);
}

/**
 * Writes `outputDir/baseName.<format>` for each format. Each file appears complete or not at all.
 *
 * @returns the paths written, in the order of `formats`
 * @throws UsageError for an unknown format or a base name that is no plain file name; else what the
 *   file system throws.
 */
export async function writeOutputs(
  transcript: Transcript,
  { outputDir, baseName, formats }: WriteOutputsOptions,
): Promise<string[]> {
  const isPlainName = baseName !== '' && basename(baseName) === baseName;
  if (!isPlainName || baseName === '.' || baseName === '..') {
    throw new UsageError(`'${baseName}' is not a file name; folders belong in outputDir.`);
  }
  const files = [...new Set(formats)].map((format) => ({
    path: join(outputDir, `${baseName}.${format}`),
    text: formatTranscript(transcript, format),
  }));
  await mkdir(outputDir, { recursive: true });
  for (const { path, text } of files) await writeWhole(path, text);
  return files.map(({ path }) => path);
}

async function writeWhole(path: string, text: string): Promise<void> {
  // In the same folder, because a rename is atomic only within one file system.
  const beside = `${path}.${randomUUID()}.tmp`;
  try {
    const handle = await open(beside, 'wx');
    try {
      await handle.writeFile(text);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}
