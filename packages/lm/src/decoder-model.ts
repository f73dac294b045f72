/** A decoder that runs as a program: of an export, or compiled from a checkpoint. */
import {
  CheckpointError,
  printable,
  SequenceCache,
  UsageError,
  type SequenceCacheOptions,
} from '@mlx-runners/mlx-core';
import type { ProgramModel } from '@mlx-runners/program';
import { checkConstants } from './check-constants.js';
import { cacheLayers, decoderConstants, type DecoderConstants } from './decoder-program.js';
import type { Decoder } from './decoder.js';
import { DecoderSteps, type StepOptions } from './decoder-steps.js';
import { Sequence } from './sequence.js';
import type { StepModel } from './step-model.js';

/** How keys and values are kept, where the program leaves that open. */
export type KvCacheOptions = Pick<SequenceCacheOptions, 'storage' | 'initialCapacity'>;

export interface DecoderModelOptions {
  /** Differs between models, whose caches are not each other's; the source unless given. */
  fingerprint?: string;
  /** Fewer tokens of a sequence than the program takes. */
  maxContextLength?: number;
  /** What the program was compiled from, disposed with the model. */
  network?: Decoder;
  /** Makes the program of `step`, where it is not in this one. */
  compileSteps?: () => Promise<ProgramModel>;
}

export class DecoderModel {
  readonly constants: DecoderConstants;
  /** Differs between models, whose caches are not each other's. */
  readonly fingerprint: string;
  readonly #program: ProgramModel;
  readonly #network: Decoder | undefined;
  readonly #compileSteps: DecoderModelOptions['compileSteps'];
  /** The program of `step`, once it was asked for. */
  #steps: Promise<ProgramModel> | undefined;

  /**
   * @param source what errors call it
   * @throws CheckpointError when it is the program of something else, UsageError for a context that is too long
   */
  constructor(program: ProgramModel, source: string, options: DecoderModelOptions = {}) {
    const { constants, methods, model } = program.manifest;
    const parsed = decoderConstants.safeParse(constants);
    if (!parsed.success || !Object.hasOwn(methods, 'forward')) {
      throw new CheckpointError(
        `${source} is an export of ${printable(model.id)}, not one of a language model.`,
      );
    }
    checkConstants(parsed.data, program, source);
    const { contextLength: most } = parsed.data;
    const { fingerprint = source, maxContextLength: contextLength = most } = options;
    if (contextLength > most) {
      throw new UsageError(
        `${source} was made for ${most} tokens: a context of ${contextLength} is too long.`,
      );
    }
    this.constants = { ...parsed.data, contextLength };
    this.fingerprint = fingerprint;
    this.#program = program;
    this.#network = options.network;
    this.#compileSteps = options.compileSteps;
  }

  /**
   * A new, empty sequence. Sequences share the weights and run at once.
   *
   * @throws UsageError for options of a cache that is in the program's states
   */
  sequence(options: KvCacheOptions = {}): Sequence {
    return new Sequence(this.#program.session(), this.constants, this.#cache(options));
  }

  /**
   * Steps of many sequences over a cache of its own.
   *
   * @throws UsageError where the program has no such steps
   */
  steps(options: StepOptions): StepModel {
    const { maxBatchSize } = this.constants;
    if (maxBatchSize === undefined) {
      throw new UsageError(
        'This export computes one sequence at a time: for many, export it with its cache off-graph and selected logits.',
      );
    }
    const session = this.#stepProgram().then((program) => program.session());
    return new DecoderSteps(session, { ...this.constants, maxBatchSize }, options);
  }

  #stepProgram(): Promise<ProgramModel> {
    this.#steps ??= this.#compileSteps?.() ?? Promise.resolve(this.#program);
    // What failed may succeed the next time.
    this.#steps.catch(() => (this.#steps = undefined));
    return this.#steps;
  }

  #cache({ storage, initialCapacity }: KvCacheOptions): SequenceCache | undefined {
    const { cache, contextLength: capacity, prefillChunk: maxWrite } = this.constants;
    if (cache === 'off-graph') {
      const layers = cacheLayers(this.constants);
      return new SequenceCache({ layers, capacity, maxWrite, storage, initialCapacity });
    }
    if (storage === undefined && initialCapacity === undefined) return undefined;
    throw new UsageError("This export's cache is in its graph: how it is kept was settled then.");
  }

  dispose(): void {
    this.#program.dispose();
    const disposeNetwork = (): void => this.#network?.dispose();
    // A batch that was made before is still to have its program.
    if (this.#steps)
      void this.#steps
        .then((program) => program.dispose())
        .finally(disposeNetwork)
        .catch(() => undefined);
    else disposeNetwork();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }
}
