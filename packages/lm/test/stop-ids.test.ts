import { CheckpointError } from '@mlx-runners/mlx-core/errors';
import { stopIds } from '@mlx-runners/lm';
import { describe, expect, it } from 'vitest';
import { smallTokenizer } from './small-tokenizer.js';

const [eot, eos, endOfTurn] = [5, 6, 7];

describe('stopIds', () => {
  it('takes those of every source', () => {
    const ids = stopIds({
      generationConfig: { eos_token_id: [11, 12] },
      config: { eos_token_id: 0, text_config: { eos_token_id: [13] } },
      tokenizer: smallTokenizer({ eos, eot: 14, eom: 15, bos: 16, padding: 17 }),
      templates: ['…<end_of_turn>…'],
    });
    expect([...ids].sort((a, b) => a - b)).toEqual([0, eos, endOfTurn, 11, 12, 13, 14, 15]);
  });

  it('takes the end of a turn out of the template, where the declared end is another', () => {
    const tokenizer = smallTokenizer({ eos });
    const templates = ["{{ message.content + '<|eot_id|>' }}"];
    expect(stopIds({ tokenizer, templates })).toEqual(new Set([eos, eot]));
    expect(stopIds({ tokenizer })).toEqual(new Set([eos]));
  });

  it('passes over what says nothing', () => {
    expect(stopIds({})).toEqual(new Set());
    expect(stopIds({ generationConfig: { eos_token_id: null }, config: {} })).toEqual(new Set());
    const templates = ['<|im_end|>'];
    expect(stopIds({ tokenizer: smallTokenizer(), templates })).toEqual(new Set());
  });

  it.each(['2', [1, '2'], -1, 1.5, {}])('refuses an eos_token_id of %j', (eos_token_id) => {
    const find = () => stopIds({ config: { eos_token_id } });
    expect(find).toThrow(CheckpointError);
    expect(find).toThrow('config.json: eos_token_id must be a token id or a list of them');
  });
});
