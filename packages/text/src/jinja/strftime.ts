/** Python's `strftime` in the C locale, of the local time. */

const MONTHS =
  'January February March April May June July August September October November December'.split(
    ' ',
  );
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  Y: (date) => String(date.getFullYear()),
  y: (date) => two(date.getFullYear() % 100),
  m: (date) => two(date.getMonth() + 1),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2),
  j: (date) => String(dayOfYear(date)).padStart(3, '0'),
  B: (date) => MONTHS[date.getMonth()],
  b: (date) => MONTHS[date.getMonth()].slice(0, 3),
  h: (date) => MONTHS[date.getMonth()].slice(0, 3),
  A: (date) => DAYS[date.getDay()],
  a: (date) => DAYS[date.getDay()].slice(0, 3),
  w: (date) => String(date.getDay()),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  p: (date) => (date.getHours() < 12 ? 'AM' : 'PM'),
  f: (date) => String(date.getMilliseconds() * 1000).padStart(6, '0'),
  F: (date) => strftime(date, '%Y-%m-%d'),
  D: (date) => strftime(date, '%m/%d/%y'),
  T: (date) => strftime(date, '%H:%M:%S'),
  R: (date) => strftime(date, '%H:%M'),
  x: (date) => strftime(date, '%m/%d/%y'),
  X: (date) => strftime(date, '%H:%M:%S'),
  c: (date) => strftime(date, '%a %b %e %H:%M:%S %Y'),
  z: () => '',
  Z: () => '',
  n: () => '\n',
  t: () => '\t',
  '%': () => '%',
};

/** `%-d` is `%d` without its leading zero. A directive that is not known stays as it is. */
export function strftime(date: Date, format: string): string {
  return format.replace(/%(-?)([a-zA-Z%])/g, (whole, dash: string, letter: string) => {
    const directive = DIRECTIVES[letter] as ((date: Date) => string) | undefined;
    if (!directive) return whole;
    const written = directive(date);
    return dash ? written.replace(/^[0 ]+(?=\d)/, '') : written;
  });
}

function two(value: number): string {
  return String(value).padStart(2, '0');
}

function dayOfYear(date: Date): number {
  const midnight = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((midnight - Date.UTC(date.getFullYear(), 0, 1)) / 86_400_000) + 1;
}
