import { CheckpointError, UsageError } from '@mlx-runners/mlx-core/errors';
import { ChatTemplate, ggufChatTemplate, loadChatTemplate } from '@mlx-runners/text';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { byteLevelMetadata } from './token-lists.js';

const messages = [{ role: 'user', content: 'hi' }];
const SHOWS = '{{ bos_token }}{{ messages[0].content }}{{ eos_token }}';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'text-test-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function load(files: Record<string, unknown>): Promise<ChatTemplate | undefined> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    const text = typeof content === 'string' ? content : JSON.stringify(content);
    await writeFile(join(folder, name), text);
  }
  return loadChatTemplate(folder);
}

describe('loadChatTemplate', () => {
  const tokens = { bos_token: '<s>', eos_token: { content: '</s>' }, add_bos_token: true };

  it('takes it from tokenizer_config.json, with the special tokens', async () => {
    const template = await load({ 'tokenizer_config.json': { ...tokens, chat_template: SHOWS } });
    expect(template!.apply(messages)).toBe('<s>hi</s>');
  });

  it('takes several by name: the one for tools where there are tools', async () => {
    const chat_template = [
      { name: 'default', template: 'plain' },
      { name: 'tool_use', template: 'tools' },
      { name: 'rag', template: 'rag' },
    ];
    const template = await load({ 'tokenizer_config.json': { chat_template } });
    expect(template!.apply(messages)).toBe('plain');
    expect(template!.apply(messages, { tools: [{}] })).toBe('tools');
    expect(template!.apply(messages, { tools: [{}], name: 'default' })).toBe('plain');
    expect(template!.apply(messages, { name: 'rag' })).toBe('rag');
    const choose = () => template!.apply(messages, { name: 'other' });
    expect(choose).toThrow(UsageError);
    expect(choose).toThrow('There is no chat template "other"; there are default, tool_use, rag.');
  });

  it('takes chat_template.jinja before it, and those beside it', async () => {
    const template = await load({
      'tokenizer_config.json': { ...tokens, chat_template: 'config' },
      'chat_template.jinja': `jinja ${SHOWS}\n`,
      'additional_chat_templates/tool_use.jinja': 'tools',
    });
    expect(template!.apply(messages)).toBe('jinja <s>hi</s>');
    expect(template!.apply(messages, { tools: [] })).toBe('tools');
  });

  it('takes chat_template.json', async () => {
    const template = await load({
      'tokenizer_config.json': tokens,
      'chat_template.json': { chat_template: SHOWS },
    });
    expect(template!.apply(messages)).toBe('<s>hi</s>');
  });

  it('finds none where there is none', async () => {
    expect(await load({})).toBeUndefined();
    expect(await load({ 'tokenizer_config.json': tokens })).toBeUndefined();
  });

  it.each([
    [{ chat_template: 7 }, /chat_template must be a text, or a list .* not 7/],
    [{ chat_template: [{ name: 'a' }] }, /chat_template must be a text/],
    [[], /is not an object/],
    [
      { chat_template: 'a\n{% if %}' },
      /tokenizer_config\.json has no usable chat template: line 2/,
    ],
    [
      { chat_template: [{ name: 'x', template: '{{' }] },
      /no usable chat template "x": line 1: The template ends within a tag/,
    ],
  ])('refuses %j', async (config, message) => {
    const loading = load({ 'tokenizer_config.json': config });
    await expect(loading).rejects.toThrow(CheckpointError);
    await expect(loading).rejects.toThrow(message);
  });
});

describe('ggufChatTemplate', () => {
  it('takes the template and the special tokens of a GGUF file', () => {
    const metadata = byteLevelMetadata('gpt-2')
      .set('tokenizer.chat_template', SHOWS)
      .set('tokenizer.chat_template.tool_use', 'tools');
    const template = ggufChatTemplate(metadata)!;
    expect(template.apply(messages)).toBe('<s>hi<|end|>');
    expect(template.apply(messages, { tools: [{}] })).toBe('tools');
    expect(ggufChatTemplate(byteLevelMetadata('gpt-2'))).toBeUndefined();
  });

  it('refuses what is no template', () => {
    const metadata = byteLevelMetadata('gpt-2').set('tokenizer.chat_template', 7);
    expect(() => ggufChatTemplate(metadata, 'm.gguf')).toThrow(/^m\.gguf: chat_template must be/);
  });
});

describe('content in parts', () => {
  const parts = (...texts: string[]) => texts.map((text) => ({ type: 'text', text }));
  const textOnly = '{% for m in messages %}{{ "<" + m.content + ">" }}{% endfor %}';
  const partsOnly =
    '{% for m in messages %}<{% for part in m.content %}{{ part.text }}{% endfor %}>{% endfor %}';
  // As a Python list prints itself, which is no way to show a text.
  const careless = '{% for m in messages %}<{{ m.content }}>{% endfor %}';

  it.each([textOnly, partsOnly, careless])('and in text renders alike: %s', (source) => {
    const template = new ChatTemplate(source);
    expect(template.apply([{ role: 'user', content: 'hi' }])).toBe('<hi>');
    expect(template.apply([{ role: 'user', content: parts('hi') }])).toBe('<hi>');
  });

  it('is joined by line breaks where a template takes text only', () => {
    const message = { role: 'user', content: parts('one', 'two') };
    expect(new ChatTemplate(textOnly).apply([message])).toBe('<one\ntwo>');
    expect(new ChatTemplate(partsOnly).apply([message])).toBe('<onetwo>');
  });

  it('stays as it is with media, and where a template shows nothing', () => {
    const template = new ChatTemplate('{{ messages[0].content is string }}');
    expect(template.apply(messages)).toBe('True');
    expect(template.apply([{ role: 'user', content: parts('hi') }])).toBe('False');
    const image = [{ type: 'image' }, ...parts('hi')];
    expect(() => new ChatTemplate(textOnly).apply([{ role: 'user', content: image }])).toThrow(
      UsageError,
    );
  });
});

describe('apply', () => {
  it('says what the template says where it refuses messages', () => {
    const template = new ChatTemplate("{{ raise_exception('Roles must alternate!') }}");
    expect(() => template.apply(messages)).toThrow(
      'The chat template refuses these messages: Roles must alternate!',
    );
  });

  it('says what a template stumbles over', () => {
    const template = new ChatTemplate('{{ messages[0].name + "!" }}', {}, 'm.gguf');
    expect(() => template.apply(messages)).toThrow(
      "m.gguf can't be applied to these messages: 'dict object' has no attribute 'name'.",
    );
  });

  it.each([
    ['calls without end', '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}'],
    [
      'text without end',
      "{% set ns = namespace(s='x' * 1000000) %}{% for i in range(1000) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    ],
    ['loops without end', '{% for i in range(10 ** 12) %}{% endfor %}'],
  ])('refuses a template with %s', (_, source) => {
    expect(() => new ChatTemplate(source).apply(messages)).toThrow(UsageError);
  });

  it('tells the present where no date is given', () => {
    const template = new ChatTemplate('{{ strftime_now("%Y") }}');
    expect(template.apply([])).toBe(String(new Date().getFullYear()));
  });

  it('keeps what a template must not reach', () => {
    for (const source of ['{{ messages.constructor }}', '{{ messages.length }}', '{{ "".at }}']) {
      expect(new ChatTemplate(source).apply(messages)).toBe('');
    }
    const template = new ChatTemplate('{{ messages.push(1) }}');
    expect(() => template.apply(messages)).toThrow(/has no attribute 'push'/);
  });
});
