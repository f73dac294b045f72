import type { Transcript } from '../transcript.js';
import { clock, cuesOf } from './cues.js';

/** SubRip: numbered cues with a comma before the milliseconds. */
export function formatSrt(transcript: Transcript): string {
  return cuesOf(transcript)
    .map(({ start, end, lines }, index) => {
      const times = `${clock(start, ',')} --> ${clock(end, ',')}`;
      return `${index + 1}\n${times}\n${lines.map(escapeArrow).join('\n')}\n`;
    })
    .join('\n');
}

// SRT has no escapes, and a line with an arrow reads as a line of times. However many dashes stand
// there, one remains.
function escapeArrow(line: string): string {
  return line.replace(/-{2,}>/g, '->');
}
