/** A Whisper of a few thousand random weights, as the files that models come in. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mx, type MxArray } from '@mlx-runners/mlx-core';
import { cTranslate2Bytes, type Files } from '@mlx-runners/test-fixtures';
import { sanitize } from '../src/checkpoint.js';
import { parseConfig } from '../src/config.js';
import { Whisper } from '../src/model.js';

export const tiny = {
  vocab_size: 30,
  num_mel_bins: 4,
  d_model: 8,
  encoder_layers: 1,
  encoder_attention_heads: 2,
  encoder_ffn_dim: 16,
  decoder_layers: 1,
  decoder_attention_heads: 2,
  decoder_ffn_dim: 16,
  max_source_positions: 10,
  max_target_positions: 12,
};

/** Random weights by Hugging Face's names and layouts. */
export function huggingFaceWeights(config = tiny): Map<string, MxArray> {
  const weights = new Map<string, MxArray>();
  let seed = 0;
  for (const [name, { shape }] of new Whisper(parseConfig(config)).parameters()) {
    const random = mx.randomNormal(mx.randomKey(seed++), shape);
    weights.set(`model.${name}`, /conv.\.weight/.test(name) ? random.swapaxes(1, 2) : random);
  }
  return weights;
}

/** The same weights as CTranslate2 has them, with fused projections and a zero bias for keys. */
export function cTranslate2Weights(config = tiny): Map<string, MxArray> {
  const source = sanitize(huggingFaceWeights(config));
  const get = (name: string): MxArray => source.get(name)!;
  const weights = new Map<string, MxArray>();
  const put = (name: string, from: string, kinds = ['weight', 'bias']): void => {
    const norm = from.endsWith('layer_norm');
    weights.set(`${name}/${norm ? 'gamma' : kinds[0]}`, get(`${from}.weight`));
    weights.set(`${name}/${norm ? 'beta' : kinds[1]}`, get(`${from}.bias`));
  };
  const fuse = (name: string, from: string, parts: string[]): void => {
    const bias = (part: string): MxArray =>
      source.get(`${from}.${part}.bias`) ?? mx.zeros([config.d_model]);
    weights.set(
      `${name}/weight`,
      mx.concatenate(
        parts.map((part) => get(`${from}.${part}.weight`)),
        0,
      ),
    );
    weights.set(`${name}/bias`, mx.concatenate(parts.map(bias), 0));
  };
  for (const side of ['encoder', 'decoder']) {
    const [own, layer] = [`${side}.layers.0`, `${side}/layer_0`];
    put(`${layer}/self_attention/layer_norm`, `${own}.self_attn_layer_norm`);
    fuse(`${layer}/self_attention/linear_0`, `${own}.self_attn`, ['q_proj', 'k_proj', 'v_proj']);
    put(`${layer}/self_attention/linear_1`, `${own}.self_attn.out_proj`);
    put(`${layer}/ffn/layer_norm`, `${own}.final_layer_norm`);
    put(`${layer}/ffn/linear_0`, `${own}.fc1`);
    put(`${layer}/ffn/linear_1`, `${own}.fc2`);
    put(`${side}/layer_norm`, `${side}.layer_norm`);
    weights.set(`${side}/position_encodings/encodings`, get(`${side}.embed_positions.weight`));
    weights.set(`${side}/num_heads`, mx.array(Int16Array.of(2), []));
  }
  const cross = 'decoder.layers.0.encoder_attn';
  put('decoder/layer_0/attention/layer_norm', `${cross}_layer_norm`);
  put('decoder/layer_0/attention/linear_0', `${cross}.q_proj`);
  fuse('decoder/layer_0/attention/linear_1', cross, ['k_proj', 'v_proj']);
  put('decoder/layer_0/attention/linear_2', `${cross}.out_proj`);
  for (const conv of ['conv1', 'conv2']) {
    weights.set(`encoder/${conv}/weight`, get(`encoder.${conv}.weight`).swapaxes(1, 2));
    weights.set(`encoder/${conv}/bias`, get(`encoder.${conv}.bias`));
  }
  weights.set('decoder/embeddings/weight', get('decoder.embed_tokens.weight'));
  return weights;
}

/** `tiny` with what the features and the tokens below need. */
const complete = { ...tiny, num_mel_bins: 80, vocab_size: 120 };

const words = ['endoftext', 'startoftranscript', 'en', 'de', 'translate', 'transcribe'];
const marks = ['startoflm', 'startofprev', 'nospeech', 'notimestamps', '0.00', '0.02', '0.04'];

/** A byte-level tokenizer of the printable bytes of ASCII and Whisper's special tokens. */
function tokenizerJson(): object {
  // In such tokenizers Ġ stands for the space.
  const characters = ['Ġ', ...Array.from({ length: 94 }, (_, i) => String.fromCharCode(0x21 + i))];
  const added = [...words, ...marks].map((word, i) => ({
    id: characters.length + i,
    content: `<|${word}|>`,
    special: true,
  }));
  return {
    added_tokens: added,
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
    decoder: { type: 'ByteLevel' },
    model: {
      type: 'BPE',
      vocab: Object.fromEntries(characters.map((character, id) => [character, id])),
      merges: [],
    },
  };
}

const json = (value: object): Buffer => Buffer.from(JSON.stringify(value));

/** A folder as Hugging Face has it. */
export function huggingFaceFiles(): Files {
  const folder = mkdtempSync(join(tmpdir(), 'whisper-tiny-'));
  try {
    const path = join(folder, 'model.safetensors');
    mx.tidy(() => {
      const weights = [...huggingFaceWeights(complete)];
      mx.saveSafetensors(path, new Map(weights.map(([name, x]) => [name, x.contiguous()])));
    });
    return {
      'config.json': json(complete),
      'tokenizer.json': json(tokenizerJson()),
      'model.safetensors': readFileSync(path),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A folder as CTranslate2 has it, in whose config.json there are no sizes. */
export function cTranslate2Files(): Files {
  const variables = mx.tidy(() =>
    [...cTranslate2Weights(complete)].map(([name, x]) => ({
      name,
      shape: [...x.shape],
      data: x.contiguous().dataSync() as Float32Array | Int16Array,
    })),
  );
  return {
    'config.json': json({ suppress_ids: [1], lang_ids: [97] }),
    'tokenizer.json': json(tokenizerJson()),
    'model.bin': cTranslate2Bytes(variables),
  };
}
