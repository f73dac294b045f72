/**
 * Templates as trees. The grammar is @huggingface/jinja's; what it lacks of Python's is put into words that
 * it has before it sees them: tests (`x is divisibleby(2)`) become filters of the name `is divisibleby`,
 * and `{% generation %}` becomes a call block.
 */

import { parse as libraryParse } from '@huggingface/jinja';
import { SyntaxFault, tokenize, type Token } from './lexer.js';
import type { Node } from './nodes.js';

/** The function that stands for the statement `generation`. */
export const GENERATION = ' generation';

/** @throws SyntaxFault for what is not a template, with the line */
export function parse(template: string): Node[] {
  const tokens = withGenerationBlocks(withTestsAsFilters(tokenize(template)));
  // The library's tokens and errors have no places: the last token that it looked at stands for one.
  let last = 0;
  const watched = new Proxy(tokens, {
    get(target, key, receiver) {
      const index = typeof key === 'string' && /^\d+$/.test(key) ? Number(key) : -1;
      if (index < target.length) last = Math.max(last, index);
      return Reflect.get(target, key, receiver) as unknown;
    },
  });
  try {
    return (libraryParse as unknown as (tokens: Token[]) => { body: Node[] })(watched).body;
  } catch (error) {
    const token = tokens.at(last);
    const isEnd = last >= tokens.length - 1 && error instanceof TypeError;
    const near = token ? ` at ${JSON.stringify(token.value.slice(0, 40))}` : '';
    const what = isEnd ? 'The template ends too early' : `Unexpected syntax${near}`;
    throw new SyntaxFault(what, token?.line ?? 1);
  }
}

function withTestsAsFilters(tokens: readonly Token[]): Token[] {
  const out: Token[] = [];
  for (let i = 0; i < tokens.length; i++) {
    const { line } = tokens[i];
    const word = (at: number) => (tokens[at]?.type === 'Identifier' ? tokens[at].value : undefined);
    const isTest = word(i) === 'is' && tokens[i - 1]?.type !== 'Dot';
    const negated = word(i + 1) === 'not';
    const name = word(negated ? i + 2 : i + 1);
    if (!isTest || name === undefined) {
      out.push(tokens[i]);
      continue;
    }
    i += negated ? 2 : 1;
    out.push({ type: 'Pipe', value: '|', line });
    out.push({ type: 'Identifier', value: `is ${negated ? 'not ' : ''}${name}`, line });
    const end = endOfArgument(tokens, i + 1);
    if (end === i + 1) continue;
    out.push({ type: 'OpenParen', value: '(', line });
    out.push(...withTestsAsFilters(tokens.slice(i + 1, end)));
    out.push({ type: 'CloseParen', value: ')', line });
    i = end - 1;
  }
  return out;
}

const NO_ARGUMENT = new Set(['and', 'or', 'else', 'if', 'in', 'not', 'is']);
const BEGINS_ARGUMENT = new Set([
  'Identifier',
  'StringLiteral',
  'NumericLiteral',
  'OpenSquareBracket',
  'OpenCurlyBracket',
]);
const OPENING = new Set(['OpenParen', 'OpenSquareBracket', 'OpenCurlyBracket']);
const CLOSING = new Set(['CloseParen', 'CloseSquareBracket', 'CloseCurlyBracket']);

/** Where the argument that a test has without parentheses ends; `start` where it has none. */
function endOfArgument(tokens: readonly Token[], start: number): number {
  const first = tokens[start] as Token | undefined;
  if (!first || !BEGINS_ARGUMENT.has(first.type)) return start;
  if (first.type === 'Identifier' && NO_ARGUMENT.has(first.value)) return start;
  let end = endOfGroup(tokens, start);
  for (;;) {
    const type = tokens[end]?.type;
    if (type === 'Dot') end += 2;
    else if (type === 'OpenParen' || type === 'OpenSquareBracket') end = endOfGroup(tokens, end);
    else return end;
  }
}

function endOfGroup(tokens: readonly Token[], start: number): number {
  let depth = 0;
  for (let i = start; i < tokens.length; i++) {
    if (OPENING.has(tokens[i].type)) depth++;
    if (CLOSING.has(tokens[i].type)) depth--;
    if (depth === 0) return i + 1;
  }
  return tokens.length;
}

function withGenerationBlocks(tokens: readonly Token[]): Token[] {
  return tokens.flatMap((token, i) => {
    if (token.type !== 'Identifier' || tokens[i - 1]?.type !== 'OpenStatement') return token;
    const { line } = token;
    if (token.value === 'endgeneration') return { ...token, value: 'endcall' };
    if (token.value !== 'generation') return token;
    return [
      { ...token, value: 'call' },
      { ...token, value: GENERATION },
      { type: 'OpenParen', value: '(', line },
      { type: 'CloseParen', value: ')', line },
    ];
  });
}
