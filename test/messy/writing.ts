/** A file as people really have it, and what it means. */
export interface MessyFile {
  bytes: Buffer;
  /** What a person would read in the file, by the first e-mail address of the person, in lower case. */
  people: Map<string, Person>;
  /** Records in which nobody can be recognised: without a name, an address and a phone number. */
  hopeless: number;
}

/** What a person would read. A value that is not there, or that nobody could read, is undefined. */
export interface Person {
  firstName: string;
  lastName: string;
  company?: string | undefined;
  title?: string | undefined;
  city?: string | undefined;
  postalCode?: string | undefined;
  /** ISO 3166 alpha-2. */
  country?: string | undefined;
  /** The mobile phone number in E.164. */
  mobile?: string | undefined;
}

export const plain = (text: string): string =>
  text
    .normalize('NFD')
    .toLowerCase()
    .replaceAll(/[^a-z]/g, '') || 'x';

/** A cell as CSV, quoted where that is needed. */
export const quoted = (text: string, separator: string): string =>
  text.includes(separator) || /["\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

/** The characters of Windows-1252 that Latin-1 does not have. */
const windows: Record<string, number> = { '€': 0x80, '„': 0x84, '–': 0x96, '“': 0x93, '”': 0x94, '’': 0x92, '…': 0x85 };

export const inWindows1252 = (text: string): Buffer =>
  Buffer.from(Array.from(text, (character) => windows[character] ?? character.charCodeAt(0)));
