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
