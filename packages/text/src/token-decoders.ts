/**
 * The decoders of tokenizer.json as streams: tokens go in one at a time, text comes out as soon as
 * no later token can change it. Behaviour follows the Rust library (tokenizers, `src/decoders`),
 * which the JavaScript one differs from in ByteFallback, Metaspace and ByteLevel with added tokens.
 */

import { CheckpointError, quoted } from '@mlx-runners/mlx-core/errors';
import { byteLevelBytes } from './byte-level.js';
import type { Component } from './pre-tokenizer-parity.js';
import { ReplaceDecoder } from './tokenizers-library.js';

/** One stage of decoding. What it returns are tokens for the next stage; the last stage's are text. */
export interface TokenDecoder {
  push(token: string): string[];
  /** What is still held back. The decoder is as new afterwards. */
  flush(): string[];
}

/**
 * @param config the `decoder` of a tokenizer.json; null joins tokens with spaces
 * @throws CheckpointError for a decoder type that no text or speech model here uses
 */
export function createTokenDecoder(config: Component | null): TokenDecoder {
  if (config === null) return new SpaceJoin();
  switch (config.type) {
    case 'Sequence':
      return sequence(config.decoders as Component[]);
    case 'ByteLevel':
      return new ByteLevel();
    case 'ByteFallback':
      return new ByteFallback();
    case 'Fuse':
      return perToken((token) => token);
    case 'Metaspace':
      return new Metaspace(config);
    case 'Replace': {
      const replace = new ReplaceDecoder(config);
      return perToken((token) => replace.decode_chain([token])[0]);
    }
    case 'Strip':
      return perToken((token) => {
        const strip = new Strip(config);
        return [...strip.push(token), ...strip.flush()].join('');
      });
    default:
      throw new CheckpointError(
        `it has a decoder of type ${quoted(config.type)}; supported are ByteLevel, ` +
          'ByteFallback, Fuse, Metaspace, Replace, Strip and sequences of them.',
      );
  }
}

/** After one of these, all text is a single token, of which the stream's pieces are parts. */
const FUSING = new Set(['ByteLevel', 'Fuse']);

function sequence(configs: Component[]): TokenDecoder {
  let fused = false;
  const stages = configs.map((config) => {
    const stage = fused ? onFusedText(config) : createTokenDecoder(config);
    fused ||= FUSING.has(config.type);
    return stage;
  });
  return new Pipeline(stages);
}

function onFusedText(config: Component): TokenDecoder {
  if (config.type === 'Fuse') return createTokenDecoder(config);
  if (config.type === 'Strip') return new Strip(config);
  // Nothing else is known to come after Fuse; it may look at the whole text, so it gets the whole.
  return new WholeText(createTokenDecoder(config));
}

function perToken(map: (token: string) => string): TokenDecoder {
  return { push: (token) => [map(token)], flush: () => [] };
}

class Pipeline implements TokenDecoder {
  private readonly stages: TokenDecoder[];

  constructor(stages: TokenDecoder[]) {
    this.stages = stages;
  }

  push(token: string): string[] {
    return this.pushFrom(0, [token]);
  }

  flush(): string[] {
    return this.stages.flatMap((stage, i) => this.pushFrom(i + 1, stage.flush()));
  }

  private pushFrom(first: number, tokens: string[]): string[] {
    for (let i = first; i < this.stages.length; i++) {
      const stage = this.stages[i];
      tokens = tokens.flatMap((token) => stage.push(token));
    }
    return tokens;
  }
}

class SpaceJoin implements TokenDecoder {
  private first = true;

  push(token: string): string[] {
    const text = this.first ? token : ` ${token}`;
    this.first = false;
    return [text];
  }

  flush(): string[] {
    this.first = true;
    return [];
  }
}

class ByteLevel implements TokenDecoder {
  private readonly utf8 = new TextDecoder('utf-8', { ignoreBOM: true });

  push(token: string): string[] {
    return [this.utf8.decode(byteLevelBytes(token), { stream: true })];
  }

  flush(): string[] {
    return [this.utf8.decode()];
  }
}

/**
 * Turns runs of `<0xHH>` tokens into text. A run that is not UTF-8 as a whole becomes one U+FFFD per
 * byte, its valid parts included, so a run can only be told when it has ended.
 */
class ByteFallback implements TokenDecoder {
  private run: number[] = [];

  push(token: string): string[] {
    const byte = /^<0x([0-9a-f]{2})>$/i.exec(token);
    if (!byte) return [...this.flush(), token];
    this.run.push(Number.parseInt(byte[1], 16));
    return [];
  }

  flush(): string[] {
    if (this.run.length === 0) return [];
    const bytes = Uint8Array.from(this.run);
    this.run = [];
    try {
      return [new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)];
    } catch {
      return Array.from(bytes, () => '\ufffd');
    }
  }
}

class Metaspace implements TokenDecoder {
  private readonly replacement: string;
  private readonly addsPrefix: boolean;
  private first = true;

  constructor(config: Component) {
    this.replacement = (config.replacement as string | undefined) ?? '▁';
    // Files from before `prepend_scheme` say it with a boolean.
    const scheme =
      config.prepend_scheme ?? (config.add_prefix_space === false ? 'never' : 'always');
    this.addsPrefix = scheme !== 'never';
  }

  push(token: string): string[] {
    const space = this.first && this.addsPrefix ? '' : ' ';
    this.first = false;
    return [token.replaceAll(this.replacement, space)];
  }

  flush(): string[] {
    this.first = true;
    return [];
  }
}

/** Cuts up to `start` leading and `stop` trailing `content` characters off a text given in pieces. */
class Strip implements TokenDecoder {
  private readonly content: string;
  private readonly start: number;
  private readonly stop: number;
  private leading: number;
  private held = '';

  constructor(config: Component) {
    this.content = config.content as string;
    this.start = config.start as number;
    this.stop = config.stop as number;
    this.leading = this.start;
  }

  push(piece: string): string[] {
    let from = 0;
    while (this.leading > 0 && from < piece.length) {
      if (piece[from] !== this.content) {
        this.leading = 0;
        break;
      }
      from++;
      this.leading--;
    }
    const text = this.held + piece.slice(from);
    let to = text.length;
    while (to > 0 && text.length - to < this.stop && text[to - 1] === this.content) to--;
    this.held = text.slice(to);
    return [text.slice(0, to)];
  }

  flush(): string[] {
    this.leading = this.start;
    this.held = '';
    return [];
  }
}

class WholeText implements TokenDecoder {
  private readonly stage: TokenDecoder;
  private text = '';

  constructor(stage: TokenDecoder) {
    this.stage = stage;
  }

  push(piece: string): string[] {
    this.text += piece;
    return [];
  }

  flush(): string[] {
    const tokens = [...this.stage.push(this.text), ...this.stage.flush()];
    this.text = '';
    return tokens;
  }
}
