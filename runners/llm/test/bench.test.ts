import { benchTable } from '@mlx-runners/runner';
import { expect, test, vi } from 'vitest';
import {
  LoadedContestant,
  type BenchPrompts,
  type Contestant,
  type ContestantProgram,
  type Turn,
} from '../src/bench-contestants.js';
import { comparedRows, summary, takeTurns } from '../src/bench-rows.js';

const prompts: BenchPrompts = { short: [1, 2], long: [3, 4, 5, 6], tokens: 3 };

/** A contestant that writes as many tokens as it is told to, or `less` of them. */
function counting({ runsOn = 'cpu', less = 0 } = {}): ContestantProgram {
  const program = `
    const say = (fields) => console.log(JSON.stringify(fields));
    say({ version: '1.0', runsOn: '${runsOn}', loadSeconds: 0.5 });
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { ids, maxTokens } = JSON.parse(line);
      const length = maxTokens - ${less};
      const drawn = Array.from({ length }, (_, i) => ids[ids.length - 1] + i + 1);
      say({ ids: drawn, firstSeconds: 0.25, seconds: 0.25 + (maxTokens - 1) / 8, peakBytes: 1e6 * ids.length });
    });`;
  return {
    title: 'counting',
    program: process.execPath,
    args: ['-e', program],
    isRight: (library) => library === 'cpu',
  };
}

test('a turn is a text written and a prompt read, timed by the contestant', async () => {
  await using contestant = await LoadedContestant.start(counting());
  expect(contestant).toMatchObject({ name: 'counting 1.0', loadSeconds: 0.5 });
  expect(await contestant.turn(prompts)).toEqual({
    decode: 8,
    prefill: 16,
    firstToken: 0.25,
    ids: [3, 4, 5],
    peakBytes: 4e6,
  });
});

test('a contestant that runs on something else, writes less, or ends is refused', async () => {
  await expect(LoadedContestant.start(counting({ runsOn: 'other' }))).rejects.toThrow(
    'counting runs on other',
  );
  await using short = await LoadedContestant.start(counting({ less: 1 }));
  await expect(short.turn(prompts)).rejects.toThrow('wrote 2 tokens instead of 3');
  const absent = { ...counting(), args: ['-e', 'console.error("no model"); process.exit(1)'] };
  await expect(LoadedContestant.start(absent)).rejects.toThrow('no model');
});

function scripted(name: string, decodes: number[], order: string[] = []): Contestant {
  const turn = (decode: number): Turn => ({
    ...{ decode, prefill: 10 * decode, firstToken: 1 / decode },
    ...{ ids: [3, 4, 5], peakBytes: 2e6 },
  });
  return {
    name,
    loadSeconds: 2,
    turn: vi.fn(() => {
      order.push(name);
      return Promise.resolve(turn(decodes.shift()!));
    }),
  };
}

test('contestants take turns, and rows hold the medians', async () => {
  const order: string[] = [];
  const contestants = [scripted('ours', [90, 10, 30], order), scripted('peer', [20, 2, 4], order)];
  const [ours, peer] = await takeTurns(contestants, 3, prompts);
  expect(order).toEqual(['ours', 'peer', 'ours', 'peer', 'ours', 'peer']);
  const goals = { decode: 5, prefill: 8 };
  expect(benchTable(comparedRows(ours, peer, { subject: 'small', prompts, goals })))
    .toMatchInlineSnapshot(`
    "what                               ours          peer         peer is  ratio  goal
    decode of 3 tokens, small, ours    30 tokens/s   4 tokens/s   peer     7.5x   5x met
    prefill of 4 tokens, small, ours   300 tokens/s  40 tokens/s  peer     7.5x   8x missed
    first token behind 2, small, ours  33.3 ms       250 ms       peer     7.5x
    peak memory, small, ours           2 MB          2 MB         peer     1x
    loading, small, ours               2 s           2 s          peer     1x
    "
  `);
  expect(summary(ours)).toBe(
    'ours: decode 30.0 (10.0 to 90.0), prefill 300 (100 to 900) tokens/s, 2 MB\n',
  );
});
