/** An exported Whisper: the folder that `whisper export` writes, run without the network's code. */
import { CheckpointError, mx, type MxArray } from '@mlx-runners/mlx-core';
import { loadExport, type ExportedModel, type Session } from '@mlx-runners/program';
import { z } from 'zod';
import type { Logits } from './logits.js';
import { logitsOf, type AudioWindow, type Decoding, type SpeechNetwork } from './network.js';

const publishedConstants = z.object({
  batch: z.literal(1),
  melBins: z.int(),
  frames: z.int(),
  contextLength: z.int(),
  vocabularySize: z.int(),
});

export class ExportedWhisper implements SpeechNetwork {
  readonly config: SpeechNetwork['config'];
  readonly #model: ExportedModel;

  /** @throws ProgramError for a folder that can't be run, CheckpointError when it is of another model */
  constructor(folder: string) {
    this.#model = loadExport(folder);
    const parsed = publishedConstants.safeParse(this.#model.manifest.constants);
    if (!parsed.success) {
      this.#model.dispose();
      throw new CheckpointError(
        `${folder} is an export, but not one of a Whisper that decodes one sequence.`,
      );
    }
    const { melBins, frames, contextLength, vocabularySize } = parsed.data;
    this.config = {
      vocab_size: vocabularySize,
      num_mel_bins: melBins,
      max_source_positions: frames / 2,
      max_target_positions: contextLength,
    };
  }

  async encode(features: MxArray): Promise<AudioWindow> {
    const encoder = this.#model.session();
    try {
      const input = this.#model.manifest.methods.encode.inputs.features;
      using typed = mx.tidy(() => features.astype(input.dtype));
      const { states } = (await encoder.run('encode', { features: typed })).outputs;
      return await ExportedWindow.create(this.#model, states);
    } finally {
      encoder.dispose();
    }
  }

  dispose(): void {
    this.#model.dispose();
  }
}

class ExportedWindow implements AudioWindow {
  readonly #model: ExportedModel;
  readonly #states: MxArray;
  readonly #session: Session;

  private constructor(model: ExportedModel, states: MxArray, session: Session) {
    this.#model = model;
    this.#states = states;
    this.#session = session;
  }

  static async create(model: ExportedModel, states: MxArray): Promise<ExportedWindow> {
    const window = new ExportedWindow(model, states, model.session());
    await window.#session.run('cross_kv', { states });
    return window;
  }

  decode(): Decoding {
    return new ExportedDecoding(this.#session, () => this.#another());
  }

  /** The same window in a session of its own. */
  async #another(): Promise<Session> {
    const session = this.#model.session();
    await session.run('cross_kv', { states: this.#states });
    return session;
  }

  [Symbol.dispose](): void {
    this.#session.dispose();
    this.#states.dispose();
  }
}

/** Several sequences are decoded in as many sessions. */
class ExportedDecoding implements Decoding {
  readonly #sessions: Session[];
  readonly #another: () => Promise<Session>;
  /** What the one sequence consists of until it is repeated. */
  readonly #ids: number[] = [];
  #past = 0;

  constructor(session: Session, another: () => Promise<Session>) {
    this.#sessions = [session];
    this.#another = another;
  }

  async step(ids: readonly (readonly number[])[], positions: readonly number[]): Promise<Logits[]> {
    const past = this.#past;
    this.#past += ids[0].length;
    if (ids.length === 1) this.#ids.push(...ids[0]);
    const rows = ids.map((row, i) => decodeIn(this.#sessions[i], row, past, positions));
    return (await Promise.all(rows)).flat();
  }

  async repeat(count: number): Promise<void> {
    while (this.#sessions.length < count) {
      const session = await this.#another();
      this.#sessions.push(session);
      await decodeIn(session, this.#ids, 0, [0]);
    }
  }

  [Symbol.dispose](): void {
    // The first is the window's.
    for (const session of this.#sessions.splice(1)) session.dispose();
  }
}

async function decodeIn(
  session: Session,
  row: readonly number[],
  past: number,
  wanted: readonly number[],
): Promise<Logits[]> {
  using ids = mx.array(Int32Array.from(row), [1, row.length]);
  using positions = mx.array(Int32Array.from(wanted));
  using logits = (await session.run('decode', { ids, positions, past })).outputs.logits;
  return await logitsOf(logits);
}
