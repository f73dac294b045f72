import { Tokenizer } from '@mlx-runners/text';

const WORDS = ['alpha', ' beta', ' gam', 'ma', ' delta', '<|eot_id|>', '</s>', '<end_of_turn>'];
const BYTES = Array.from({ length: 256 }, (_, byte) => byte);

/** A byte-level tokenizer of some words and all bytes; `<|eot_id|>`, `</s>` and `<end_of_turn>` are special. */
export function smallTokenizer(specialTokens = {}): Tokenizer {
  // Bytes 0x80 and up, which the tests need, stand for characters from U+0100 + 33 on, or for themselves.
  const characters = BYTES.filter((byte) => byte !== 0x20).map((byte) => characterOf(byte));
  const tokens = [...WORDS.map((word) => word.replace(' ', 'Ġ')), ...characters, 'Ġ'];
  return Tokenizer.fromJson(
    {
      added_tokens: WORDS.map((content, id) => ({ id, content, special: true })).slice(5),
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
      decoder: { type: 'ByteLevel' },
      model: {
        type: 'BPE',
        vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
        merges: [],
      },
    },
    'tokenizer.json',
    specialTokens,
  );
}

/** GPT-2's table: printable bytes of Latin-1 stand for themselves, the others for U+0100 and up. */
function characterOf(byte: number): string {
  const isPrintable = (b: number) => (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b !== 0xad);
  if (isPrintable(byte)) return String.fromCharCode(byte);
  return String.fromCharCode(0x100 + BYTES.slice(0, byte).filter((b) => !isPrintable(b)).length);
}

/** The ids of a text's bytes. */
export function byteIds(tokenizer: Tokenizer, text: string): number[] {
  return Array.from(new TextEncoder().encode(text), (byte) => {
    return tokenizer.tokenToId(byte === 0x20 ? 'Ġ' : characterOf(byte))!;
  });
}
