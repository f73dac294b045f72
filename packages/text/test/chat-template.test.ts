import { CheckpointError, UsageError } from '@mlx-runners/mlx-core/errors';
import { ChatTemplate, type ChatMessage } from '@mlx-runners/text';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

type Outcome = { expected: string } | { error: string; message: string };

/** What Python makes of chat templates (fixtures/make_chat_templates.py). */
const reference = JSON.parse(
  readFileSync(new URL('./fixtures/chat-templates.generated.json', import.meta.url), 'utf8'),
) as {
  now: string;
  tokens: Record<string, string>;
  conversations: Record<string, ChatMessage[]>;
  options: Record<string, unknown>[];
  cases: ({ template: string; conversation: string; options: number } & Outcome)[];
  variables: Record<string, unknown>;
  snippets: ({ template: string } & Outcome)[];
  broken: { template: string; line: number }[];
};

const folder = new URL('./fixtures/chat-templates/', import.meta.url);
const names = readdirSync(folder).map((file) => file.replace('.jinja', ''));
const source = (name: string) => readFileSync(new URL(`${name}.jinja`, folder), 'utf8');
const date = new Date(reference.now);

function apply(template: ChatTemplate, messages: ChatMessage[], options: Record<string, unknown>) {
  const { add_generation_prompt, tools, documents, ...variables } = options;
  return template.apply(messages, {
    addGenerationPrompt: add_generation_prompt as boolean | undefined,
    tools: tools as object[] | undefined,
    documents: documents as object[] | undefined,
    date,
    variables,
  });
}

describe.each(names)('the template %s', (name) => {
  const template = new ChatTemplate(source(name), reference.tokens);
  const cases = reference.cases.filter((entry) => entry.template === name);

  it('has cases', () => {
    expect(cases.length).toBeGreaterThan(5);
    expect(cases.filter((entry) => 'expected' in entry).length).toBeGreaterThan(5);
  });

  it.each(cases)('renders $conversation with options $options as Python does', (entry) => {
    const render = () =>
      apply(
        template,
        reference.conversations[entry.conversation],
        reference.options[entry.options],
      );
    if ('expected' in entry) expect(render()).toBe(entry.expected);
    else expect(render).toThrow(UsageError);
  });
});

describe('an expression or a statement', () => {
  it.each(reference.snippets)('gives what it gives in Python: $template', (entry) => {
    const render = () =>
      new ChatTemplate(entry.template).apply([], { date, variables: reference.variables });
    if ('expected' in entry) expect(render()).toBe(entry.expected);
    else expect(render).toThrow(UsageError);
  });
});

describe('a damaged template', () => {
  it.each(reference.broken)('is refused with the line: $template', ({ template, line }) => {
    const make = () => new ChatTemplate(template, {}, '/a/chat_template.jinja');
    expect(make).toThrow(CheckpointError);
    expect(make).toThrow(`/a/chat_template.jinja has no usable chat template: line ${line}: `);
  });
});
