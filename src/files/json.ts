import { parseJson } from '../text/json-text.ts';

/** Parses JSON from a file with the same checks as JSON in requests. An object with many names would block the event loop. */
export const parseCell = (text: string): ReturnType<typeof parseJson> =>
  parseJson(text, Buffer.from(text), { names: 10_000 });
