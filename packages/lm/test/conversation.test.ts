/** Conversations, and what is done to them at the wrong time. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '@mlx-runners/mlx-core';
import { LanguageModel, type Conversation } from '@mlx-runners/lm';
import { tinyChatTemplate, writeTinyLanguageModel } from '@mlx-runners/test-fixtures';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const scratch = mkdtempSync(join(tmpdir(), 'lm-conversation-'));
afterAll(() => rmSync(scratch, { recursive: true }));

let model: LanguageModel;
let base: LanguageModel;
beforeAll(async () => {
  const folder = writeTinyLanguageModel(join(scratch, 'llama'), { template: tinyChatTemplate });
  model = await LanguageModel.load(folder, { maxContextLength: 100 });
  base = await LanguageModel.load(writeTinyLanguageModel(join(scratch, 'base')));
});
afterAll(async () => {
  await model.dispose();
  await base.dispose();
});

const options = { temperature: 0, maxTokens: 6, ignoreStopIds: true };
const roles = ({ messages }: Conversation): string =>
  messages
    .map(({ role, content }) => `${role[0]}${role === 'user' ? (content as string) : ''}`)
    .join();

it('remembers what was said', async () => {
  const conversation = model.conversation({ ...options, system: '1' });
  const first = await conversation.send('2').result();
  expect(conversation.messages).toEqual([
    { role: 'system', content: '1' },
    { role: 'user', content: '2' },
    { role: 'assistant', content: first.text },
  ]);
  const second = await conversation.send('3').result();
  expect(second.usage.cachedTokens).toBeGreaterThan(0);
  const whole = await model.generate(conversation.messages.slice(0, -1), options).result();
  expect(second.text).toBe(whole.text);
});

it('takes turns back, and forgets', async () => {
  const conversation = model.conversation(options);
  const first = await conversation.send('2').result();
  await conversation.send('3').result();
  expect(conversation.undo(5)).toBe(2);
  expect(conversation.undo()).toBe(0);
  expect(await conversation.send('2').result()).toMatchObject({ text: first.text });
  conversation.reset();
  expect(conversation.messages).toEqual([]);
});

it('forgets what was stopped', async () => {
  const conversation = model.conversation(options);
  for await (const part of conversation.send('2')) if (part) break;
  expect(conversation.messages).toEqual([]);
  await conversation.send('3').result();
  expect(roles(conversation)).toBe('u3,a');
});

it('remembers each answer once, however often it is looked at', async () => {
  const conversation = model.conversation(options);
  const first = conversation.send('2');
  await first.result();
  await conversation.send('3').result();
  await first.result();
  for await (const part of first) expect(part).toBeDefined();
  expect(roles(conversation)).toBe('u2,a,u3,a');
});

describe('while an answer is under way', () => {
  it('refuses another one, and to be changed', async () => {
    const conversation = model.conversation(options);
    const [first, second] = [conversation.send('2'), conversation.send('3')];
    const results = await Promise.allSettled([first.result(), second.result()]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(roles(conversation)).toBe('u2,a');
    for await (const part of conversation.send('4')) {
      expect(part).toBeDefined();
      expect(() => conversation.undo()).toThrow('An answer is under way');
      expect(() => conversation.reset()).toThrow(UsageError);
    }
    expect(roles(conversation)).toBe('u2,a,u4,a');
  });

  it('refuses what was said before the conversation went on', async () => {
    const conversation = model.conversation(options);
    const late = conversation.send('2');
    await conversation.send('3').result();
    await expect(late.result()).rejects.toThrow('has gone on since');
    expect(roles(conversation)).toBe('u3,a');
  });
});

it.each([0, -1, 0.5, NaN])('takes back no %s turns', async (turns) => {
  const conversation = model.conversation(options);
  await conversation.send('2').result();
  expect(() => conversation.undo(turns)).toThrow(UsageError);
  expect(roles(conversation)).toBe('u2,a');
});

it('needs a chat template', () => {
  expect(() => base.conversation()).toThrow('no chat template');
  expect(() => base.generate([{ role: 'user', content: '1' }])).toThrow('no chat template');
});
