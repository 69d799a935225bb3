const inWords = '„”‚ƒ†‡ˆ‰‹˜›¡¢£¤¥¦§¨¬¯±²³¶¸¹¼½¾¿×÷';

/**
 * What texts in Windows-1252 hardly have, but texts in another encoding if they are read so: codes without a character, signs
 * and capitals within a word (`Zak³ad`, `MŸller`), and four accented letters in a row.
 */
const odd = new RegExp(
  String.raw`[\u0080-\u009f]|\p{L}[${inWords}]\p{L}|\p{L}§|(?<!\p{L})[£¯¿]\p{L}*[${inWords}]|\p{L}[ŠŸŽ€]\p{Ll}|[À-ÖØ-öø-ÿ]{4}`,
  'u',
);

const betweenWords = /[\s,;()"]+/;
const isAscii = /^[\0-\x7f]*$/; // eslint-disable-line no-control-regex

/** Of the words with characters beyond ASCII. A single odd word is one that somebody has mistyped. */
const enough = 1 / 20;

/** Returns a word which shows that texts are not in Windows-1252, as which they were read. Undefined: nothing shows that. */
export function misreadWord(texts: Iterable<string>): string | undefined {
  let [all, found] = [0, 0];
  let first: string | undefined;
  for (const text of texts)
    for (const word of text.slice(0, 500).split(betweenWords)) {
      if (isAscii.test(word)) continue;
      all += 1;
      if (!odd.test(word)) continue;
      found += 1;
      first ??= word;
    }
  return found > all * enough ? first : undefined;
}

/** Says what to do. */
export const misreadText = (word: string): string =>
  `the file is read as windows-1252, but ${JSON.stringify(word.slice(0, 40))} looks wrong: if it has another encoding, ` +
  'name it (such as macintosh or windows-1250), or save the file as UTF-8';
