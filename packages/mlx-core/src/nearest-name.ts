/** What someone who typed `name` most likely meant; undefined where nothing is close. */
export function nearestName(name: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined;
  // Two typing mistakes, fewer in short names.
  let least = Math.min(3, name.length / 2);
  for (const candidate of names) {
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase());
    if (distance < least) [nearest, least] = [candidate, distance];
  }
  return nearest;
}

/** What else to say of an unknown name: `did you mean decode?` or `there are encode, decode.` */
export function nameHint(unknown: unknown, names: readonly string[]): string {
  const nearest = typeof unknown === 'string' ? nearestName(unknown, names) : undefined;
  return nearest === undefined ? `there are ${names.join(', ')}.` : `did you mean ${nearest}?`;
}

/** Letters to insert, remove or replace (Levenshtein), row by row of the usual table. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1] + Number(a[i - 1] !== b[j - 1]);
      next.push(Math.min(replaced, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row[b.length];
}
