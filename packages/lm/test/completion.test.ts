import { UsageError } from '@mlx-runners/mlx-core/errors';
import { Completion, type CompletionOptions } from '@mlx-runners/lm';
import { Tokenizer } from '@mlx-runners/text';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { byteIds, smallTokenizer } from './small-tokenizer.js';

const tokenizer = smallTokenizer();
const [alpha, beta, gam, ma, delta, eot] = [0, 1, 2, 3, 4, 5];

function run(ids: readonly number[], options: Partial<CompletionOptions> = {}) {
  const completion = new Completion({
    tokenizer,
    stopIds: new Set([eot]),
    maxTokens: Infinity,
    ...options,
  });
  const texts: string[] = [];
  for (const id of ids) {
    if (completion.finish) break;
    texts.push(completion.push(id));
  }
  return {
    texts,
    text: texts.join(''),
    finish: completion.finish,
    tokens: completion.tokens,
    completion,
  };
}

describe('Completion', () => {
  it('ends at a stop token, which has no text', () => {
    const { text, finish, tokens } = run([alpha, beta, eot, delta]);
    expect(text).toBe('alpha beta');
    expect(finish).toEqual({ reason: 'stop', stopId: eot });
    expect(tokens).toBe(2);
  });

  it('takes id 0 for a stop token, too', () => {
    expect(run([beta, alpha], { stopIds: new Set([0]) }).finish).toEqual({
      reason: 'stop',
      stopId: 0,
    });
  });

  it('ends at a stop string over several tokens, of which nothing is put out', () => {
    const { texts, finish } = run([alpha, beta, gam, ma, delta], { stopStrings: ['beta gamma'] });
    expect(texts).toEqual(['alpha', ' ', '', '']);
    expect(finish).toEqual({ reason: 'stop', stopString: 'beta gamma' });
  });

  it('puts out what was held back when it ends otherwise', () => {
    const stopStrings = [' beta gamma ray'];
    expect(run([alpha, beta, gam, ma, eot], { stopStrings }).texts).toEqual([
      'alpha',
      '',
      '',
      '',
      ' beta gamma',
    ]);
    const short = run([alpha, beta, gam], { stopStrings, maxTokens: 3 });
    expect(short.text).toBe('alpha beta gam');
    expect(short.finish).toEqual({ reason: 'length' });
  });

  it('ends when it is as long as it may be', () => {
    const { text, finish, tokens } = run([alpha, beta, gam], { maxTokens: 2 });
    expect(text).toBe('alpha beta');
    expect(finish).toEqual({ reason: 'length' });
    expect(tokens).toBe(2);
  });

  it('says "stop" where the last token it may have completes a stop string', () => {
    const { finish } = run([alpha, beta], { maxTokens: 2, stopStrings: ['beta'] });
    expect(finish).toEqual({ reason: 'stop', stopString: 'beta' });
  });

  it('of no tokens at all has ended before it began', () => {
    const { completion, finish } = run([alpha], { maxTokens: 0 });
    expect(finish).toEqual({ reason: 'length' });
    expect(() => completion.push(alpha)).toThrow(UsageError);
  });

  it('never cuts a character in two', () => {
    const ids = byteIds(tokenizer, 'é👍');
    expect(run([...ids, eot]).texts).toEqual(['', 'é', '', '', '', '👍', '']);
    expect(run(ids.slice(0, 4), { maxTokens: 4 }).text).toBe('é\ufffd');
  });

  it('keeps the space that it begins with only where it continues a text', () => {
    const pieces = ['▁a', '▁the', '▁', '</s>'];
    const sentencePiece = Tokenizer.fromJson({
      added_tokens: [{ id: 3, content: '</s>', special: true }],
      pre_tokenizer: { type: 'Metaspace', prepend_scheme: 'always' },
      decoder: { type: 'Metaspace', prepend_scheme: 'always' },
      model: {
        type: 'BPE',
        vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
        merges: [],
      },
    });
    const given = { tokenizer: sentencePiece, stopIds: new Set([3]) };
    expect(run([1, 0], given).texts).toEqual(['the', ' a']);
    expect(run([1, 0], { ...given, continued: 0 }).texts).toEqual([' the', ' a']);
    // Behind no more than a token of the beginning there is no text that could go on.
    expect(run([1, 0], { ...given, continued: 3 }).texts).toEqual(['the', ' a']);
    const stopped = run([1, 0], { ...given, continued: 0, stopStrings: [' the a'] });
    expect([stopped.text, stopped.tokens]).toEqual(['', 2]);
  });

  it('gives the rest of its text when it is closed', () => {
    const { completion, text } = run([alpha, beta], { stopStrings: [' beta gamma'] });
    expect(text).toBe('alpha');
    expect(completion.close()).toBe(' beta');
    expect(completion.finish).toBeUndefined();
  });

  it('puts out the decoded tokens, up to where it ends', () => {
    const ids = fc.array(fc.integer({ min: 0, max: tokenizer.vocabSize - 1 }), { maxLength: 30 });
    const stops = fc.array(fc.constantFrom('ph', 'a b', 'gamma', '\ufffd', 'a'), { maxLength: 3 });
    fc.assert(
      fc.property(ids, stops, fc.integer({ min: 1, max: 40 }), (ids, stopStrings, maxTokens) => {
        const { text, finish, completion } = run(ids, { stopStrings, maxTokens });
        const whole = text + completion.close();
        const end = ids.indexOf(eot);
        const all = tokenizer.decode(ids.slice(0, end < 0 ? undefined : end).slice(0, maxTokens));
        const ended = finish ?? completion.finish;
        if (ended && 'stopString' in ended) {
          expect(all.startsWith(whole + ended.stopString)).toBe(true);
        } else {
          expect(whole).toBe(all);
        }
        expect(stopStrings.some((stop) => whole.includes(stop))).toBe(false);
      }),
      { seed: 9, numRuns: 1000 },
    );
  });

  it.each([-1, 1.5, NaN])('refuses %s tokens', (maxTokens) => {
    expect(() => run([], { maxTokens })).toThrow(UsageError);
  });
});
