import { fold } from './fold.ts';

/**
 * Legal forms of companies, folded, without spaces and punctuation, by country or language. A form may be written with
 * spaces and dots: `s. a.` and `s.a.` are `sa`.
 */
const legalForms: Record<string, string> = {
  english:
    'inc incorporated corp corporation co company ltd limited llc lc llp lp lllp pllc plc pc cic cio ulc pty ptyltd proprietarylimited pte pteltd pvt pvtltd privatelimited publiclimitedcompany',
  german:
    'gmbh ggmbh mbh ag kg kgaa ohg gbr ug ughaftungsbeschrankt haftungsbeschrankt ek ekfr ekfm ev eg se partg partgmbb aktiengesellschaft gesellschaftmitbeschrankterhaftung gesellschaftmbh gesmbh kommanditgesellschaft',
  french: 'sa sas sasu sarl sarlau eurl snc sca scs sci scop scrl societeanonyme cie',
  spanish:
    'sl slu slp sll sau sociedadanonima sociedadlimitada saic sadecv sabdecv sapidecv sderldecv srldecv spa eirl',
  portuguese: 'lda ltda sgps eireli',
  italian: 'srl srls spa sapa snc scarl societaperazioni',
  dutch: 'bv nv vof cv bvba cvba sprl asbl vzw',
  nordic:
    'ab publ aktiebolag aktiebolaget hb asa as ans nuf aps ivs oy oyj oyab abp ky ehf hf aktieselskab anpartsselskab',
  polish: 'spzoo spolkazoo spolkazograniczonaodpowiedzialnoscia spj spk psa spolkaakcyjna',
  central: 'sro vos ks spolsro kft nyrt zrt kkt doo jdoo ood eood ead',
  baltic: 'uab sia ou',
  greek: 'ae epe',
  turkish: 'ltdsti anonimsirketi limitedsirketi sti',
  russian: 'ооо оао зао пао ао тоо тов ooo oao zao pao',
  asian: 'kk sdnbhd bhd berhad tbk',
  other: 'jsc ojsc cjsc pjsc fze fzco fzllc dmcc wll saog',
};

/** Legal forms that stand before the name, as in `PT Astra` or `ООО Ромашка`. */
const leadingForms = new Set('ооо оао зао пао ао тоо тов ooo oao zao pao pt uab sia aktiebolaget'.split(' '));

/** Legal forms of languages that do not separate words by spaces. They stand before or after the name. */
const joinedForms = (
  '株式会社 有限会社 合同会社 合資会社 合名会社 一般社団法人 ' +
  '股份有限公司 有限责任公司 有限責任公司 有限公司 ' +
  '주식회사 유한회사 유한책임회사'
)
  .split(' ')
  .map(fold);

/** Characters that stand for a legal form between brackets, as in `(株)トヨタ`. */
const bracketedForms = new Set(['株', '有', '주', '유'].map(fold));

const forms = new Set([...Object.values(legalForms).flatMap((line) => line.split(' ')), ...joinedForms]);

/** Words that connect a legal form with the name, as in `Smith & Co` or `Müller und Co`. */
const connectors = new Set(['and', 'und', 'et', 'y', 'e', 'i', 'og', 'och', 'en', 'de']);

/** Maximum number of words of a legal form, such as `s de r l de c v`. */
const mostWords = 7;

/**
 * Returns the name by which other people know a company: folded, without legal forms and punctuation. Two spellings of
 * one company have the same one: `ACME, Inc.` and `Acme Incorporated` are `acme`. A name that is nothing but a legal
 * form stays. Returns `""` for a name without letters and digits.
 */
export function externalName(name: string): string {
  return withoutTrailing(withoutLeading(wordsOf(name))).join(' ');
}

/** Apostrophes and dots join letters: `O'Neil`, `S.A.`. Other punctuation separates words. */
function wordsOf(name: string): string[] {
  const text = fold(name).replaceAll(/['’`´ʼ.]/g, '');
  const found = text.match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? [];
  return withoutBracketed(found).map(withoutJoined);
}

function withoutBracketed(words: string[]): string[] {
  const left = words.filter((word) => !bracketedForms.has(word));
  return left.length > 0 ? left : words;
}

function withoutJoined(word: string): string {
  for (const form of joinedForms) {
    if (word.length <= form.length) continue;
    if (word.startsWith(form)) return word.slice(form.length);
    if (word.endsWith(form)) return word.slice(0, -form.length);
  }
  return word;
}

function withoutLeading(words: string[]): string[] {
  const [first] = words;
  return words.length > 1 && leadingForms.has(first!) ? words.slice(1) : words;
}

/** Removes legal forms from the end, one after the other, as in `GmbH & Co. KG`. */
function withoutTrailing(words: string[]): string[] {
  const length = lengthOfForm(words);
  if (length === 0) return words;
  const rest = words.slice(0, -length);
  while (rest.length > 1 && connectors.has(rest.at(-1)!)) rest.pop();
  return withoutTrailing(rest);
}

/** Returns the number of words of the longest legal form at the end. At least one word stays before it. */
function lengthOfForm(words: readonly string[]): number {
  for (let length = Math.min(mostWords, words.length - 1); length > 0; length -= 1)
    if (forms.has(words.slice(-length).join(''))) return length;
  return 0;
}
