import type { Transcript } from '../transcript.js';
import { textLines } from './cues.js';

/** Plain text, one segment a line. */
export function formatTxt(transcript: Transcript): string {
  const texts = transcript.segments.map((segment) => segment.text);
  const lines = (texts.length > 0 ? texts : [transcript.text]).flatMap(textLines);
  return lines.map((line) => `${line}\n`).join('');
}
