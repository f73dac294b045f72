/**
 * Cuts a template into the tokens that @huggingface/jinja's parser takes, with Jinja's own rules for
 * white space (jinja2/lexer.py, `trim_blocks` and `lstrip_blocks` on) and the line of each token.
 */

import { PYTHON_SPACE, strip } from './python-text.js';

export interface Token {
  value: string;
  /** As the library names them. */
  type: string;
  /** From 1. */
  line: number;
}

export class SyntaxFault extends Error {
  readonly line: number;

  constructor(message: string, line: number) {
    super(message);
    this.line = line;
  }
}

const OPERATORS: readonly (readonly [string, string])[] = [
  ['**', 'ExponentiationBinaryOperator'],
  ['//', 'MultiplicativeBinaryOperator'],
  ['==', 'ComparisonBinaryOperator'],
  ['!=', 'ComparisonBinaryOperator'],
  ['>=', 'ComparisonBinaryOperator'],
  ['<=', 'ComparisonBinaryOperator'],
  ['>', 'ComparisonBinaryOperator'],
  ['<', 'ComparisonBinaryOperator'],
  ['+', 'AdditiveBinaryOperator'],
  ['-', 'AdditiveBinaryOperator'],
  ['~', 'AdditiveBinaryOperator'],
  ['*', 'MultiplicativeBinaryOperator'],
  ['/', 'MultiplicativeBinaryOperator'],
  ['%', 'MultiplicativeBinaryOperator'],
  ['(', 'OpenParen'],
  [')', 'CloseParen'],
  ['[', 'OpenSquareBracket'],
  [']', 'CloseSquareBracket'],
  ['{', 'OpenCurlyBracket'],
  ['}', 'CloseCurlyBracket'],
  [',', 'Comma'],
  ['.', 'Dot'],
  [':', 'Colon'],
  ['|', 'Pipe'],
  ['=', 'Equals'],
];

const CLOSING: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

const SPACE = `[${PYTHON_SPACE}]`;
const BEGIN = /\{[%{#]/g;
const RAW_BEGIN = new RegExp(`\\{%[-+]?${SPACE}*raw${SPACE}*(?:-%\\}${SPACE}*|%\\})`, 'y');
const RAW_END = new RegExp(
  `\\{%([-+]?)${SPACE}*endraw${SPACE}*(?:\\+%\\}|-%\\}${SPACE}*|%\\}\\n?)`,
  'g',
);
const COMMENT_END = new RegExp(`(?:\\+#\\}|-#\\}${SPACE}*|#\\}\\n?)`, 'g');
const BLOCK_END = new RegExp(`(?:\\+%\\}|-%\\}${SPACE}*|%\\}\\n?)`, 'y');
const VARIABLE_END = new RegExp(`(?:-\\}\\}${SPACE}*|\\}\\})`, 'y');
const SPACES = new RegExp(`${SPACE}+`, 'y');
const FLOAT = /\d+(?:_\d+)*(?:(?:\.\d+(?:_\d+)*)?[eE][+-]?\d+(?:_\d+)*|\.\d+(?:_\d+)*)/y;
const INTEGER =
  /0[bB](?:_?[01])+|0[oO](?:_?[0-7])+|0[xX](?:_?[\da-fA-F])+|[1-9](?:_?\d)*|0(?:_?0)*/y;
const NAME = /[\p{L}_\p{Nl}][\p{L}\p{M}\p{N}_]*/uy;
const STRING = /'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"/y;

/** @throws SyntaxFault for what is not a template */
export function tokenize(template: string): Token[] {
  return new Lexer(template.replace(/\r\n?/g, '\n').replace(/\n$/, '')).tokens();
}

class Lexer {
  private readonly source: string;
  private readonly found: Token[] = [];
  private at = 0;
  private line = 1;
  private countedTo = 0;
  /** Whether the text that follows begins a line. */
  private lineStarts = true;

  constructor(source: string) {
    this.source = source;
  }

  tokens(): Token[] {
    while (this.at < this.source.length) this.textAndTag();
    return this.found;
  }

  private textAndTag(): void {
    BEGIN.lastIndex = this.at;
    const begin = BEGIN.exec(this.source)?.index ?? this.source.length;
    const kind = this.source[begin + 1];
    const sign = this.source[begin + 2];
    this.text(this.at, begin, sign, kind === '%' || kind === '#');
    this.at = begin;
    if (begin === this.source.length) return;
    if (this.match(RAW_BEGIN)) {
      this.raw();
      return;
    }
    const signed = sign === '-' || (sign === '+' && kind !== '{');
    this.at = begin + (signed ? 3 : 2);
    if (kind === '#') {
      this.comment();
      return;
    }
    const isBlock = kind === '%';
    this.emit(isBlock ? 'OpenStatement' : 'OpenExpression', isBlock ? '{%' : '{{', begin);
    this.code(isBlock ? BLOCK_END : VARIABLE_END);
    this.emit(isBlock ? 'CloseStatement' : 'CloseExpression', isBlock ? '%}' : '}}', begin);
  }

  /** Text before a tag: what its sign, or `lstrip_blocks`, takes away is left out. */
  private text(from: number, to: number, sign: string | undefined, lstrips: boolean): void {
    let value = this.source.slice(from, to);
    if (to < this.source.length) {
      if (sign === '-') value = strip(value, null, 'right');
      else if (lstrips && sign !== '+') {
        const lineStart = value.lastIndexOf('\n') + 1;
        const blank = new RegExp(`^${SPACE}+$`).test(value.slice(lineStart));
        if (blank && (lineStart > 0 || this.lineStarts)) value = value.slice(0, lineStart);
      }
    }
    if (value !== '') this.emit('Text', value, from);
  }

  private raw(): void {
    RAW_END.lastIndex = this.at;
    const end = RAW_END.exec(this.source);
    if (!end) throw this.fault('Missing end of raw directive');
    this.text(this.at, end.index, end[1], true);
    this.passed(end.index, end[0]);
  }

  private comment(): void {
    COMMENT_END.lastIndex = this.at;
    const end = COMMENT_END.exec(this.source);
    if (!end) throw this.fault('Missing end of comment tag');
    this.passed(end.index, end[0]);
  }

  /** The inside of a tag, to its end. */
  private code(end: RegExp): void {
    const closing: string[] = [];
    for (;;) {
      this.match(SPACES);
      const start = this.at;
      // Within brackets, `}}` closes two of them.
      const ended = closing.length === 0 ? this.match(end) : undefined;
      if (ended !== undefined) {
        this.lineStarts = ended.endsWith('\n');
        return;
      }
      if (start >= this.source.length) throw this.fault('The template ends within a tag');
      const float = this.match(FLOAT);
      if (float !== undefined) {
        const digits = String(Number(float.replaceAll('_', '')));
        this.emit('NumericLiteral', digits.includes('.') ? digits : `${digits}.0`, start);
        continue;
      }
      const integer = this.match(INTEGER);
      if (integer !== undefined) {
        this.emit('NumericLiteral', String(Number(integer.replaceAll('_', ''))), start);
        continue;
      }
      const name = this.match(NAME);
      if (name !== undefined) {
        this.emit('Identifier', name, start);
        continue;
      }
      const string = this.match(STRING);
      if (string !== undefined) {
        this.emit('StringLiteral', unescaped(string.slice(1, -1)), start);
        continue;
      }
      this.operator(closing);
    }
  }

  private operator(closing: string[]): void {
    const operator = OPERATORS.find(([text]) => this.source.startsWith(text, this.at));
    if (!operator) throw this.fault(`Unexpected character ${JSON.stringify(this.source[this.at])}`);
    const [text, type] = operator;
    if (text in CLOSING) closing.push(CLOSING[text]);
    else if (Object.values(CLOSING).includes(text) && closing.pop() !== text) {
      throw this.fault(`Unexpected ${text}`);
    }
    this.at += text.length;
    this.emit(type, text, this.at - text.length);
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.source);
    if (!match) return undefined;
    this.at = pattern.lastIndex;
    return match[0];
  }

  private passed(index: number, matched: string): void {
    this.at = index + matched.length;
    this.lineStarts = matched.endsWith('\n');
  }

  private emit(type: string, value: string, start: number): void {
    this.found.push({ type, value, line: this.lineOf(start) });
  }

  private lineOf(index: number): number {
    for (; this.countedTo < index; this.countedTo++) {
      if (this.source[this.countedTo] === '\n') this.line++;
    }
    return this.line;
  }

  private fault(message: string): SyntaxFault {
    return new SyntaxFault(message, this.lineOf(this.at));
  }
}

const ESCAPED: Readonly<Record<string, string>> = {
  n: '\n',
  t: '\t',
  r: '\r',
  b: '\b',
  f: '\f',
  v: '\v',
  a: '\u0007',
  '\\': '\\',
  "'": "'",
  '"': '"',
  '\n': '',
};

/** Python's escapes; what is none of them stays as it is written. */
function unescaped(literal: string): string {
  return literal.replace(
    /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g,
    (whole, x?: string, u?: string, long?: string, octal?: string, letter?: string) => {
      const hex = x ?? u ?? long;
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
      return ESCAPED[letter!] ?? whole;
    },
  );
}
