/**
 * Reads a number as people write it, such as `40.000,00`, `40,000.00` or `€ 40 000`. Returns undefined if it is not a
 * number, or if it can mean two: `1,249` is a thousand in one country, and a bit more than one in another.
 */
export function readNumber(given: string): number | undefined {
  if (given.length > maxLength) return undefined;
  const text = given.trim().replaceAll(/^(?:\p{Sc}|[A-Z]{3})\s*|\s*(?:\p{Sc}|[A-Z]{3})$/gu, '');
  const plain = /^\d+(?:[.,]\d+)?$/.exec(text)?.[0];
  if (plain !== undefined) return /^[1-9]\d{0,2}[.,]\d{3}$/.test(plain) ? undefined : Number(plain.replace(',', '.'));
  return groupings.some((grouped) => grouped.test(text)) ? Number(withPoint(text)) : undefined;
}

const maxLength = 40;

/** Groups of three digits, and the decimals after another mark. */
const groupings = [
  /^\d{1,3}(?:\.\d{3})+(?:,\d+)?$/,
  /^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/,
  /^\d{1,3}(?:[\s'’]\d{3})+(?:[.,]\d+)?$/,
];

/** Drops the marks between groups of digits. */
function withPoint(text: string): string {
  const hasDecimals = new Set(text.replaceAll(/\d/g, '')).size > 1;
  const end = hasDecimals ? Math.max(text.lastIndexOf('.'), text.lastIndexOf(',')) : text.length;
  return `${text.slice(0, end).replaceAll(/\D/g, '')}${hasDecimals ? `.${text.slice(end + 1)}` : ''}`;
}
