/** Transcripts as text, and as files. */
import { basename, join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core/errors';
import { writeWholeFile } from '@mlx-runners/mlx-core/whole-file';
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
 * @throws UsageError for an unknown format or a base name that is no plain file name; FileError
 *   where a file can't be written.
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
  for (const { path, text } of files) await writeWholeFile(path, text);
  return files.map(({ path }) => path);
}
