import type { Segment, Transcript, Word } from '../transcript.js';

export function formatJson(transcript: Transcript): string {
  return `${JSON.stringify(transcriptJson(transcript), null, 2)}\n`;
}

/**
 * A transcript with the field names of OpenAI's `verbose_json`. Words stand twice where there are
 * any: in one list for the whole, as that API gives them, and in their segments, as Whisper's own
 * files do.
 */
export function transcriptJson(transcript: Transcript) {
  const words = transcript.segments.flatMap((segment) => segment.words ?? []);
  const timed = transcript.segments.some((segment) => segment.words);
  return {
    language: transcript.language,
    duration: transcript.duration,
    text: transcript.text,
    segments: transcript.segments.map(segmentJson),
    ...(timed && { words: words.map(wordJson) }),
  };
}

function segmentJson(segment: Segment) {
  return {
    id: segment.id,
    seek: segment.seek,
    start: segment.start,
    end: segment.end,
    text: segment.text,
    tokens: segment.tokens,
    temperature: segment.temperature,
    avg_logprob: segment.avgLogprob,
    compression_ratio: segment.compressionRatio,
    no_speech_prob: segment.noSpeechProb,
    ...(segment.words && { words: segment.words.map(wordJson) }),
  };
}

function wordJson({ word, start, end, probability }: Word) {
  return { word, start, end, probability };
}
