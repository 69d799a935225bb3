import { parseJson } from '../text/parse-json.ts';

/** Parses JSON from a file with the same checks as JSON in requests. A text with more values would block the event loop. */
export const parseCell = (text: string): ReturnType<typeof parseJson> => parseJson(text, 20_000);
