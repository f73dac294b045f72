/** Parts of a text on their way to someone who may take them later than they come. */
import type { SampledToken } from '@mlx-runners/mlx-core/program';
import type { TextEnd, TextPart } from './generation.js';

export class TextParts {
  /** What nobody has taken yet, joined. */
  #text = '';
  #tokens: SampledToken[] = [];
  #end: { value: TextEnd } | { reason: unknown } | undefined;
  #wake: (() => void) | undefined;

  /** Whether nothing more comes. */
  get ended(): boolean {
    return this.#end !== undefined;
  }

  push({ text, tokens }: TextPart): void {
    this.#text += text;
    this.#tokens.push(...tokens);
    this.#wake?.();
  }

  /** Nothing comes after it. */
  end(value: TextEnd): void {
    this.#end ??= { value };
    this.#wake?.();
  }

  /** Nothing comes after it. */
  fail(reason: unknown): void {
    this.#end ??= { reason };
    this.#wake?.();
  }

  /** Takes all parts; for one reader. */
  async *read(): AsyncGenerator<TextPart, TextEnd> {
    for (;;) {
      if (this.#text !== '' || this.#tokens.length > 0) yield this.#take();
      else if (!this.#end) await new Promise<void>((resolve) => (this.#wake = resolve));
      else if ('reason' in this.#end) throw this.#end.reason;
      else return this.#end.value;
    }
  }

  #take(): TextPart {
    const part = { text: this.#text, tokens: this.#tokens };
    this.#text = '';
    this.#tokens = [];
    return part;
  }
}
