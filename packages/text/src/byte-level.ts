/**
 * The byte ↔ character table of byte-level BPE (GPT-2, encoder.py `bytes_to_unicode`): printable
 * bytes of Latin-1 stand for themselves, the other 68 for U+0100 and up, in order.
 */

const BYTE_OF_CHARACTER = new Map<string, number>();

for (let byte = 0, next = 0x100; byte < 0x100; byte++) {
  const printable =
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  BYTE_OF_CHARACTER.set(String.fromCharCode(printable ? byte : next++), byte);
}

const encoder = new TextEncoder();

/**
 * The raw bytes that a token of a byte-level BPE vocabulary stands for (`'Ġhi'` → 20 68 69). They
 * need not be whole UTF-8 characters. A token with any character outside of the table, as special
 * tokens may have, stands for its own UTF-8, as in Rust's ByteLevel decoder.
 */
export function byteLevelBytes(token: string): Uint8Array {
  // Every character of the table is one UTF-16 unit, so units can be counted as bytes.
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTE_OF_CHARACTER.get(token[i]);
    if (byte === undefined) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
