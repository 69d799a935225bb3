const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Returns an id in the one form in which ids are stored and compared: in lower case. Returns undefined if the text is
 * not a UUID. Call it where an id enters the program. Everywhere else, ids can be compared as texts.
 */
export const canonicalId = (text: string): string | undefined => (uuid.test(text) ? text.toLowerCase() : undefined);
