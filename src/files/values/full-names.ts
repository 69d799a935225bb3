/** Words that begin a last name, such as `van der Berg`. */
const particles = new Set(
  "van von der den de del della di da do dos das du la le les los las ter ten te zu zur zum vom af av ben bin ibn al el bint mac st st. ’t 't".split(
    ' ',
  ),
);

/** Words after a last name. */
const suffix = /^(?:jr|sr|ii|iii|iv|ph\.?d|m\.?d|mba|esq)\.?$/i;

/** Salutations and titles before a name, such as `Prof. Dr. med.` */
const titles = new RegExp(
  String.raw`^(?:(?:(?:herrn?|frau|mr|mrs|ms|mme|mlle|drs?|prof|professor|dipl)(?:\.?-\p{L}+\.?|\.|(?=\s))|(?:med|rer|nat|phil|ing|h\.\s?c)\.)\s*)+`,
  'iu',
);

/** A text of titles alone stays. */
const withoutTitles = (text: string): string => text.replace(titles, '').trim() || text;

export interface FullName {
  first_name?: string;
  last_name?: string;
}

/**
 * Splits the name of a person. The last word is the last name, with the particles before it, and with suffixes such as
 * `Jr.`. In `Last, First` the comma decides. Titles are no part of the first name.
 */
export function splitFullName(written: string): FullName {
  const text = withoutTitles(written);
  const comma = text.indexOf(',');
  const [before, after] = comma < 0 ? [text, ''] : [text.slice(0, comma).trim(), text.slice(comma + 1).trim()];
  if (after !== '' && before !== '' && !after.split(/\s+/).every((word) => suffix.test(word)))
    return { first_name: withoutTitles(after), last_name: before };
  const words = (comma < 0 ? text : `${before}, ${after}`).split(/\s+/).filter((word) => word !== '' && word !== ',');
  let start = words.length - 1;
  while (start > 1 && suffix.test(words[start]!)) start -= 1;
  while (start > 1 && particles.has(words[start - 1]!.toLowerCase())) start -= 1;
  // A name of two words such as `De Niro` is a last name if it begins with a particle.
  if (start === 1 && words.length > 1 && particles.has(words[0]!)) start = 0;
  const [first, last] = [words.slice(0, start).join(' '), words.slice(start).join(' ')];
  return { ...(first === '' ? {} : { first_name: first }), ...(last === '' ? {} : { last_name: last }) };
}
