import type { Transcript } from '../transcript.js';
import { clock, cuesOf } from './cues.js';

/** WebVTT (W3C): a dot before the milliseconds, and text in which `&`, `<` and `>` are escaped. */
export function formatVtt(transcript: Transcript): string {
  const cues = cuesOf(transcript).map(({ start, end, lines }) => {
    return `\n${clock(start, '.')} --> ${clock(end, '.')}\n${lines.map(escapeMarkup).join('\n')}\n`;
  });
  return `WEBVTT\n${cues.join('')}`;
}

function escapeMarkup(line: string): string {
  return line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
