import type { AddedToken } from './tokenizer-file.js';

/** Ids of the tokens that have a part to play around a text; each may be missing. */
export interface SpecialTokens {
  /** Begins a text. */
  bos?: number;
  /** Ends a text. */
  eos?: number;
  /** Ends a turn of a conversation. */
  eot?: number;
  /** Ends a message that a tool is to answer. */
  eom?: number;
  unknown?: number;
  padding?: number;
}

interface Framing {
  /** The token that begins every text. */
  bos?: AddedToken;
  /** The token that ends every text. */
  eos?: AddedToken;
}

/** The `post_processor` of a tokenizer.json that puts these tokens around a text; none without any. */
export function framingProcessor({ bos, eos }: Framing): object | null {
  if (!bos && !eos) return null;
  const item = (token: AddedToken | undefined) =>
    token ? [{ SpecialToken: { id: token.content, type_id: 0 } }] : [];
  const framed = (sequence: string) => [
    ...item(bos),
    { Sequence: { id: sequence, type_id: 0 } },
    ...item(eos),
  ];
  const tokens = [bos, eos].filter((token) => token !== undefined);
  return {
    type: 'TemplateProcessing',
    single: framed('A'),
    pair: [...framed('A'), ...framed('B')],
    special_tokens: Object.fromEntries(
      tokens.map(({ content, id }) => [content, { id: content, ids: [id], tokens: [content] }]),
    ),
  };
}
