/** Checkpoints of llama2.c, and the tokenizer that lies beside them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pyTorchBytes, type PyTorchTensor } from './pytorch.js';
import { randomNumbers } from './signals.js';

/** A tokenizer.bin of the given pieces after the special tokens and bytes. */
export function tokenizerBin(pieces: readonly string[]): Buffer {
  const bytes = Array.from({ length: 256 }, (_, byte) => {
    return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
  });
  const tokens = ['<unk>', '\n<s>\n', '\n</s>\n', ...bytes, ...pieces];
  const entries = tokens.map((token, id) => {
    const head = Buffer.alloc(8);
    head.writeFloatLE(id < 259 ? 0 : 259 - id);
    head.writeUInt32LE(Buffer.byteLength(token), 4);
    return Buffer.concat([head, Buffer.from(token)]);
  });
  const longest = Buffer.alloc(4);
  longest.writeUInt32LE(Math.max(...tokens.map((token) => Buffer.byteLength(token))));
  return Buffer.concat([longest, ...entries]);
}

/** Merges letter by letter to the words of `Once upon a time,`. */
const pieces = [
  ...[
    'On',
    'Onc',
    'Once',
    ' Once',
    'up',
    'upo',
    'upon',
    ' upon',
    ' a',
    'ti',
    'tim',
    'time',
    ' time',
  ],
  ...[' ', ...Array.from('Onceupoatim,')],
];

const dim = 64;
const hidden = 192;
const layers = 2;
const vocabulary = 320;

/**
 * Writes `stories.pt` of random weights, the same each time, and a tokenizer.bin of 320 tokens to a folder.
 *
 * @returns the folder
 */
export function writeTinyLlama2c(
  folder: string,
  { tokenizer = true }: { tokenizer?: boolean } = {},
): string {
  mkdirSync(folder, { recursive: true });
  const next = randomNumbers(42);
  const matrix = (rows: number, columns: number): PyTorchTensor => ({
    shape: [rows, columns],
    data: Float32Array.from(
      { length: rows * columns },
      () => ((next() - 0.5) * 3.5) / Math.sqrt(columns),
    ),
  });
  const norm = (): PyTorchTensor => ({ shape: [dim], data: new Float32Array(dim).fill(1) });
  const embeddings = matrix(vocabulary, dim);
  // Bytes are unlikely, so that texts are words.
  for (let i = 3 * dim; i < 259 * dim; i++) embeddings.data[i] /= 10;
  const model: Record<string, PyTorchTensor> = {
    'tok_embeddings.weight': embeddings,
    'norm.weight': norm(),
    'output.weight': embeddings,
  };
  for (let i = 0; i < layers; i++) {
    const put = (name: string, tensor: PyTorchTensor): void => {
      model[`layers.${i}.${name}.weight`] = tensor;
    };
    for (const name of ['wq', 'wk', 'wv', 'wo']) put(`attention.${name}`, matrix(dim, dim));
    put('feed_forward.w1', matrix(hidden, dim));
    put('feed_forward.w2', matrix(dim, hidden));
    put('feed_forward.w3', matrix(hidden, dim));
    put('attention_norm', norm());
    put('ffn_norm', norm());
  }
  const model_args = {
    ...{ dim, n_layers: layers, n_heads: 4, n_kv_heads: 4, vocab_size: vocabulary },
    ...{ multiple_of: 32, norm_eps: 1e-5, max_seq_len: 256, dropout: 0 },
  };
  writeFileSync(join(folder, 'stories.pt'), pyTorchBytes({ model, model_args }));
  if (tokenizer) {
    const others = Array.from({ length: vocabulary - 259 - pieces.length }, (_, i) => ` w${i}`);
    writeFileSync(join(folder, 'tokenizer.bin'), tokenizerBin([...pieces, ...others]));
  }
  return folder;
}
