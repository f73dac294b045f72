/** The weights of a golden as a checkpoint of their own. */
import { readFileSync } from 'node:fs';
import { fixturePath } from './fixtures.js';

interface Entry {
  dtype: string;
  shape: number[];
  data_offsets: [number, number];
}

/**
 * @param golden its name without `.safetensors`
 * @returns its config.json, and a safetensors file of the tensors under `w.` by their own names
 */
export function goldenCheckpoint(golden: string): {
  config: Record<string, unknown>;
  safetensors: Uint8Array;
} {
  const file = readFileSync(fixturePath(`${golden}.safetensors`));
  const dataStart = 8 + Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, dataStart)) as Record<string, Entry>;
  const { config } = header.__metadata__ as unknown as { config: string };
  const entries: Record<string, Entry> = {};
  const parts: Uint8Array[] = [];
  let end = 0;
  for (const [name, entry] of Object.entries(header)) {
    if (!name.startsWith('w.')) continue;
    const [from, to] = entry.data_offsets;
    parts.push(file.subarray(dataStart + from, dataStart + to));
    entries[name.slice(2)] = { ...entry, data_offsets: [end, end + to - from] };
    end += to - from;
  }
  const text = Buffer.from(JSON.stringify({ __metadata__: { format: 'pt' }, ...entries }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return {
    config: JSON.parse(config) as Record<string, unknown>,
    safetensors: Buffer.concat([length, text, ...parts]),
  };
}
