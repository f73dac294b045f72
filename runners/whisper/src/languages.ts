/** Languages as people write them, by the codes of Whisper's tokens. */
import { UsageError } from '@mlx-runners/mlx-core/errors';

const names = new Intl.DisplayNames('en', { type: 'language' });

/** `māori` → `maori`, so that names can be typed. */
function plain(text: string): string {
  return text
    .normalize('NFD')
    .replaceAll(/\p{Diacritic}/gu, '')
    .toLowerCase();
}

function nameOf(code: string): string {
  return plain(names.of(code) ?? code);
}

/**
 * The model's code of a language: of `en`, `EN`, `en-US` and `English` it is `en`. Another code of
 * the same language does as well (Whisper's `jw` for `jv`).
 *
 * @throws UsageError when the model knows no such language
 */
export function languageCode(language: string, known: readonly string[]): string {
  const wanted = plain(language.trim());
  const [primary] = wanted.split(/[-_]/);
  const isCode = /^[a-z]{2,3}$/.test(primary);
  const code =
    known.find((each) => each === primary) ??
    known.find((each) => nameOf(each) === wanted || (isCode && nameOf(each) === nameOf(primary)));
  if (code !== undefined) return code;
  const list = known.length === 1 ? 'The model knows only' : 'Known are, also by their names,';
  throw new UsageError(`There is no language ${language}. ${list} ${known.join(' ')}.`);
}
