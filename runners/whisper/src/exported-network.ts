/** An exported Whisper: the folder that `whisper export` writes, run without the network's code. */
import { CheckpointError, mx, printable, type Dtype, type MxArray } from '@mlx-runners/mlx-core';
import { loadExport, type Arrays, type ExportedModel, type Session } from '@mlx-runners/program';
import type { LoadOptions } from '@mlx-runners/runner/library';
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
  readonly #run: Run;

  /** @throws ProgramError for a folder that can't be run, CheckpointError when it is of another model */
  constructor(folder: string, onProfile?: LoadOptions['onProfile']) {
    this.#run = onProfile ? profiling(onProfile) : plainly;
    this.#model = loadExport(folder);
    const { constants, methods, model } = this.#model.manifest;
    const parsed = publishedConstants.safeParse(constants);
    const lacks = ['encode', 'cross_kv', 'decode'].some((name) => !Object.hasOwn(methods, name));
    if (!parsed.success || lacks) {
      this.#model.dispose();
      throw new CheckpointError(
        `${folder} is an export of ${printable(model.id)}, not one of a Whisper that decodes one sequence.`,
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

  /** Of weights and activations. */
  get dtype(): Dtype {
    return this.#model.manifest.dtype;
  }

  async encode(features: MxArray): Promise<AudioWindow> {
    const encoder = this.#model.session();
    try {
      const input = this.#model.manifest.methods.encode.inputs.features;
      using typed = mx.tidy(() => features.astype(input.dtype));
      const { states } = await this.#run(encoder, 'encode', { features: typed });
      return await ExportedWindow.create(this.#model, this.#run, states);
    } finally {
      encoder.dispose();
    }
  }

  dispose(): void {
    this.#model.dispose();
  }
}

/** Runs a method of a session. */
type Run = (
  session: Session,
  method: string,
  inputs: Readonly<Record<string, MxArray | number>>,
) => Promise<Arrays>;

const plainly: Run = async (session, method, inputs) => (await session.run(method, inputs)).outputs;

function profiling(onProfile: NonNullable<LoadOptions['onProfile']>): Run {
  return async (session, method, inputs) => {
    const { outputs, profile } = await session.run(method, inputs, { profile: true });
    onProfile({ method, profile: profile! });
    return outputs;
  };
}

class ExportedWindow implements AudioWindow {
  readonly #model: ExportedModel;
  readonly #run: Run;
  readonly #states: MxArray;
  readonly #session: Session;

  private constructor(model: ExportedModel, run: Run, states: MxArray, session: Session) {
    this.#model = model;
    this.#run = run;
    this.#states = states;
    this.#session = session;
  }

  static async create(model: ExportedModel, run: Run, states: MxArray): Promise<ExportedWindow> {
    const window = new ExportedWindow(model, run, states, model.session());
    await run(window.#session, 'cross_kv', { states });
    return window;
  }

  decode(): Decoding {
    return new ExportedDecoding(this.#session, this.#run, () => this.#another());
  }

  /** The same window in a session of its own. */
  async #another(): Promise<Session> {
    const session = this.#model.session();
    await this.#run(session, 'cross_kv', { states: this.#states });
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
  readonly #run: Run;
  readonly #another: () => Promise<Session>;
  /** What the one sequence consists of until it is repeated. */
  readonly #ids: number[] = [];
  #past = 0;

  constructor(session: Session, run: Run, another: () => Promise<Session>) {
    this.#sessions = [session];
    this.#run = run;
    this.#another = another;
  }

  async step(ids: readonly (readonly number[])[], positions: readonly number[]): Promise<Logits[]> {
    const past = this.#past;
    this.#past += ids[0].length;
    if (ids.length === 1) this.#ids.push(...ids[0]);
    const rows = ids.map((row, i) => decodeIn(this.#run, this.#sessions[i], row, past, positions));
    return (await Promise.all(rows)).flat();
  }

  async repeat(count: number): Promise<void> {
    while (this.#sessions.length < count) {
      const session = await this.#another();
      this.#sessions.push(session);
      await decodeIn(this.#run, session, this.#ids, 0, [0]);
    }
  }

  [Symbol.dispose](): void {
    // The first is the window's.
    for (const session of this.#sessions.splice(1)) session.dispose();
  }
}

async function decodeIn(
  run: Run,
  session: Session,
  row: readonly number[],
  past: number,
  wanted: readonly number[],
): Promise<Logits[]> {
  using ids = mx.array(Int32Array.from(row), [1, row.length]);
  using positions = mx.array(Int32Array.from(wanted));
  using logits = (await run(session, 'decode', { ids, positions, past })).logits;
  return await logitsOf(logits);
}
