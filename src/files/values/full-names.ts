/** Words that begin a last name, such as `van der Berg`. */
const particles = new Set(
  "van von der den de del della di da do dos das du la le les los las ter ten te zu zur zum vom af av ben bin ibn al el bint mac st st. ’t 't".split(
    ' ',
  ),
);

/** Salutations and titles before a name. Compared in lower case, without a dot at the end. */
const titles = new Set(
  'herr herrn frau fräulein mr mrs ms miss mx sir mme mlle monsieur madame sr sra srta don doña dott dott.ssa avv dr drs dra prof professor professorin profa univ priv doz dipl mag maga ddr dkfm lic rev'.split(
    ' ',
  ),
);

/** Titles only with a dot, or in capitals: without it they could be names. */
const dottedTitles = /^(?:hr|fr|ing|mag\.a|ao|apl|em|hon)\.$/i;
const capitalTitles = new Set(['DI', 'PD']);

/** A title with what it is joined to, such as `Dipl.-Ing.`, `Dr.-Ing.` and `Univ.-Prof.`. */
const joinedTitle = /^(?:dipl|dr|prof|univ|priv|hon)\.?-\p{L}/iu;

/** What follows a title: a subject, `h. c.`, or a school between brackets, as in `Dipl.-Ing. (FH)`. */
const titleSubject =
  /^(?:(?:med|rer|nat|phil|jur|iur|oec|pol|habil|techn|theol|vet|dent|agr|paed|soc|sc|ing|mont|publ|h|c|h\.c|mult)\.|hc|\((?:fh|ba|dh|uni|tu|h\.?c\.?)\))$/i;

/** Degrees and the like after a name. Compared in lower case, without dots. */
const generations = new Set('jr sr ii iii iv'.split(' '));
const degrees = new Set(
  'phd dphil md mba emba esq ma mas ms msc mse meng med mfa mph mpa mpp mphil mtech ba bs bsc beng bed bba bcom btech llm llb jd dds dmd dvm dba edd psyd pharmd dnp do rn bsn msn np pa cpa cfa cfp cma pmp cissp cisa cism csm pe pmi shrm-cp shrm-scp phr sphr fca aca acca mrics frcs mbe obe cbe qc kc ret dipl-ing diplom mmag'.split(
    ' ',
  ),
);

export interface FullName {
  first_name?: string;
  last_name?: string;
}

/** A name, and the titles and degrees that are no part of it, as they are written. */
export interface ReadName {
  name: FullName;
  leftOut: string[];
}

/**
 * Splits the name of a person. The last word is the last name, with the particles before it. In `Last, First` the comma
 * decides. Titles before the name and degrees after it are left out; a text of titles alone is a last name.
 * @param hasTwoFamilyNames the person has two last names, as in Spanish and Portuguese
 */
export function readFullName(written: string, hasTwoFamilyNames = false): ReadName {
  const spaced = written.replaceAll(/\b(dr|prof|mag|dipl|ing|hr|fr|mrs?|ms)\.(?=\p{L})/giu, '$1. ');
  const parts = spaced.split(',').map(wordsOf);
  const isShouting = spaced === spaced.toUpperCase();
  const leftOut: string[] = [];
  const all = parts.filter((part) => part.length > 0);
  const first = all[0] ?? [];
  const names = all.filter((part, i) => {
    const isDegrees =
      i > 0 && part.every((word) => isDegree(word, isShouting) || isUnknownDegree(word, isShouting, first));
    if (isDegrees) leftOut.push(...part);
    return !isDegrees;
  });
  const [before = [], ...after] = names.map((part) => withoutTitles(part, isShouting, leftOut));
  if (after.length > 0) return { name: named(after.map(joined).join(', '), joined(before)), leftOut };
  return { name: split(before, hasTwoFamilyNames), leftOut };
}

const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '');
const joined = (words: readonly string[]): string => words.join(' ');

const named = (first: string, last: string): FullName => ({
  ...(first === '' ? {} : { first_name: first }),
  ...(last === '' ? {} : { last_name: last }),
});

/** Removes titles and degrees, unless nothing would be left. */
function withoutTitles(words: string[], isShouting: boolean, leftOut: string[]): string[] {
  let start = 0;
  while (start < words.length && (isTitle(words[start]!) || (start > 0 && titleSubject.test(words[start]!))))
    start += 1;
  if (start === words.length) return words;
  let end = words.length;
  while (end - start > 2 && isDegree(words[end - 1]!, isShouting)) end -= 1;
  leftOut.push(...words.slice(0, start), ...words.slice(end));
  return words.slice(start, end);
}

const isTitle = (word: string): boolean =>
  titles.has(word.toLowerCase().replace(/\.$/, '')) ||
  dottedTitles.test(word) ||
  capitalTitles.has(word) ||
  joinedTitle.test(word);

/** In a text of capitals, `MA` can be a name. With dots, it is a degree. */
function isDegree(word: string, isShouting: boolean): boolean {
  const key = word.toLowerCase().replaceAll('.', '');
  if (generations.has(key)) return true;
  return (
    degrees.has(key) &&
    (word.slice(0, -1).includes('.') || (!isShouting && /\p{Lu}.*\p{Lu}/u.test(word)) || key === 'esq')
  );
}

/** A word of capitals after `Ann Lee,` is a degree. After `Lee,` it can be the first name. */
const isUnknownDegree = (word: string, isShouting: boolean, before: readonly string[]): boolean =>
  !isShouting && before.length > 1 && word.length <= 12 && /^\p{Lu}{3,6}(?:-\p{Lu}{1,5})?[®™]?$/u.test(word);

function split(words: readonly string[], hasTwoFamilyNames: boolean): FullName {
  let start = startOfLast(words, words.length);
  const isPair = hasTwoFamilyNames && start > 1 && !(start === 2 && secondFirstNames.has(words[1]!.toLowerCase()));
  if (isPair) start = startOfLast(words, start);
  // A name of two words such as `De Niro` is a last name if it begins with a particle.
  if (start === 1 && words.length > 1 && particles.has(words[0]!)) start = 0;
  return named(joined(words.slice(0, start)), joined(words.slice(start)));
}

/** Returns the index of the first word of the last name that ends before `end`. */
function startOfLast(words: readonly string[], end: number): number {
  let start = end - 1;
  const withParticles = (): void => {
    while (start > 1 && particles.has(words[start - 1]!.toLowerCase())) start -= 1;
  };
  withParticles();
  // José Ortega y Gasset
  if (start > 2 && (words[start - 1] === 'y' || words[start - 1] === 'e')) start -= 2;
  withParticles();
  return Math.max(0, start);
}

/** In `José Luis García`, the second word is a first name. */
const secondFirstNames = new Set(
  'maría maria josé jose luis luís carlos antonio antónio manuel jesús jesus ángel angel juan joão joao francisco javier miguel fernando pablo alberto ignacio isabel carmen teresa pilar dolores cristina luisa luísa elena'.split(
    ' ',
  ),
);

/** Countries where people have two last names. */
const withTwoFamilyNames = new Set(
  'ES MX AR CO PE VE CL EC GT CU BO DO HN PY SV NI CR PR PA UY GQ PT BR AO MZ CV GW ST'.split(' '),
);

export const hasTwoFamilyNamesIn = (country: string): boolean => withTwoFamilyNames.has(country);
