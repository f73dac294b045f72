/** What a speech model heard. Times are seconds from the start of the audio. */

export interface Word {
  /** As the model writes it, with its leading space. */
  word: string;
  start: number;
  end: number;
  /** Mean probability of the word's tokens. */
  probability: number;
}

export interface Segment {
  id: number;
  /** Start of the window this segment was decoded in, in feature frames (10 ms). */
  seek: number;
  start: number;
  end: number;
  text: string;
  tokens: number[];
  /** Sampling temperature that the decoder ended up with. */
  temperature: number;
  /** Mean log-probability (natural logarithm) of the tokens. */
  avgLogprob: number;
  /** Bytes of the text over bytes of its zlib compression; above 2.4 it repeats itself. */
  compressionRatio: number;
  noSpeechProb: number;
  words?: Word[];
}

export interface Transcript {
  text: string;
  /** Language code, such as `en`; null where there was no speech to tell it from. */
  language: string | null;
  duration: number;
  segments: Segment[];
}
