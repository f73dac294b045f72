import { CheckpointError, printable, UsageError } from '@mlx-runners/mlx-core/errors';
import { SyntaxFault } from './jinja/lexer.js';
import { RaisedError, Template } from './jinja/template.js';
import { TemplateError } from './jinja/values.js';

/** A part of a message's content: text, or media that a template marks with tokens of its own. */
export interface ContentPart {
  type: string;
  text?: string;
  [field: string]: unknown;
}

/** A message of a conversation, with the fields of OpenAI's API; templates may read others. */
export interface ChatMessage {
  role: string;
  content?: string | readonly ContentPart[] | null;
  [field: string]: unknown;
}

export interface ChatTemplateOptions {
  /** Whether the beginning of the assistant's answer follows the messages. Default false. */
  addGenerationPrompt?: boolean;
  /** JSON schemas of functions: `{ type: 'function', function: { name, … } }`. */
  tools?: readonly object[];
  /** What the answer is to be based on: `{ title, text }`. */
  documents?: readonly object[];
  /** Which of several templates; default `tool_use` where there are tools and such a template, else `default`. */
  name?: string;
  /** What the template takes for now. Default the present, in local time. */
  date?: Date;
  /** Further variables of the template, as `enable_thinking`; they replace all others of the same name. */
  variables?: Readonly<Record<string, unknown>>;
}

/** The names of a model's special tokens in templates: `bos_token`, `eos_token` … and their texts. */
export type TemplateTokens = Readonly<Record<string, string>>;

/** Under which names a message may tell its reasoning; templates read the first, or the second. */
const REASONING = ['reasoning_content', 'thinking', 'reasoning'] as const;

/**
 * The text that a model expects for a conversation, as the template of its files has it: byte for byte what
 * `apply_chat_template` of Python's transformers gives.
 */
export class ChatTemplate {
  /** The templates' texts by name; a single one is called `default`. */
  readonly sources: Readonly<Record<string, string>>;
  readonly tokens: TemplateTokens;
  private readonly templates: ReadonlyMap<string, Template>;
  private readonly file: string;
  private readonly formats = new Map<Template, ContentFormats>();

  /**
   * @param sources the template, or several by name
   * @param tokens the model's special tokens
   * @param file what messages call the file that it comes from
   * @throws CheckpointError for what is not a template, with the line
   */
  constructor(
    sources: string | Readonly<Record<string, string>>,
    tokens: TemplateTokens = {},
    file = 'The chat template',
  ) {
    this.sources = typeof sources === 'string' ? { default: sources } : { ...sources };
    this.tokens = tokens;
    this.file = file;
    this.templates = new Map(
      Object.entries(this.sources).map(([name, source]) => [name, parsed(source, name, file)]),
    );
  }

  /**
   * @returns the prompt. Special tokens are written out in it, so it is to be encoded without adding any.
   * @throws UsageError for messages that the template refuses, or can't be applied to
   */
  apply(messages: readonly ChatMessage[], options: ChatTemplateOptions = {}): string {
    const { addGenerationPrompt = false, tools, documents, date, variables } = options;
    const template = this.choose(options);
    return this.render(
      template,
      {
        ...this.tokens,
        messages: messages.map((message) => this.prepared(message, template)),
        tools: tools ?? null,
        documents: documents ?? null,
        add_generation_prompt: addGenerationPrompt,
        ...variables,
      },
      date ?? new Date(),
    );
  }

  private choose({ name, tools }: ChatTemplateOptions): Template {
    const wanted = name ?? (tools && this.templates.has('tool_use') ? 'tool_use' : 'default');
    const template = this.templates.get(wanted);
    if (template) return template;
    const names = [...this.templates.keys()].join(', ');
    throw new UsageError(`There is no chat template "${printable(wanted)}"; there are ${names}.`);
  }

  private render(template: Template, variables: Record<string, unknown>, date: Date): string {
    try {
      return template.render(variables, date);
    } catch (cause) {
      if (cause instanceof RaisedError) {
        throw new UsageError(
          `The chat template refuses these messages: ${printable(cause.message, 400)}`,
          { cause },
        );
      }
      // A macro that calls itself without end, or text without end.
      if (!(cause instanceof TemplateError || cause instanceof RangeError)) throw cause;
      throw new UsageError(
        `${this.file} can't be applied to these messages: ${printable(cause.message, 400)}.`,
        { cause },
      );
    }
  }

  /** Without fields that are null, with the reasoning under each of its names, content as the template has it. */
  private prepared(message: ChatMessage, template: Template): Record<string, unknown> {
    const fields = Object.fromEntries(
      Object.entries(message).filter(([, value]) => value !== null && value !== undefined),
    );
    const reasoning = REASONING.map((name) => fields[name]).find((value) => value !== undefined);
    const named =
      reasoning === undefined
        ? fields
        : { thinking: reasoning, ...fields, reasoning_content: reasoning };
    const content = 'content' in named ? this.fitted(message.content!, template) : undefined;
    return content === undefined ? named : { ...named, content };
  }

  /** Some templates take a message's content as text only, some as parts only. */
  private fitted(content: string | readonly ContentPart[], template: Template) {
    if (typeof content === 'string') {
      return this.formatsOf(template).text ? content : [{ type: 'text', text: content }];
    }
    const isText = content.every(({ type, text }) => type === 'text' && typeof text === 'string');
    if (!isText || this.formatsOf(template).parts) return content;
    return content.map(({ text }) => text).join('\n');
  }

  private formatsOf(template: Template): ContentFormats {
    let formats = this.formats.get(template);
    if (!formats) {
      formats = { text: this.shows(template, PROBE), parts: this.showsParts(template) };
      // Where neither can be seen, nothing is known: content stays as it is.
      if (!formats.text && !formats.parts) formats = { text: true, parts: true };
      this.formats.set(template, formats);
    }
    return formats;
  }

  private showsParts(template: Template): boolean {
    return this.shows(template, [{ type: 'text', text: PROBE }]);
  }

  /** Whether the template writes out such content: the text alone, not as a list is printed. */
  private shows(template: Template, content: string | readonly ContentPart[]): boolean {
    const messages = [{ role: 'user', content }];
    const variables = { ...this.tokens, messages, tools: null, add_generation_prompt: false };
    try {
      const output = template.render(variables, new Date());
      return output.includes(PROBE) && !/['"]text['"]: ['"]/.test(output);
    } catch {
      return false;
    }
  }
}

interface ContentFormats {
  text: boolean;
  parts: boolean;
}

const PROBE = 'Is this text put out?';

function parsed(source: string, name: string, file: string): Template {
  try {
    return new Template(source);
  } catch (cause) {
    if (!(cause instanceof SyntaxFault)) throw cause;
    const which = name === 'default' ? '' : ` "${printable(name)}"`;
    throw new CheckpointError(
      `${file} has no usable chat template${which}: line ${cause.line}: ${printable(cause.message)}.`,
      { cause },
    );
  }
}
