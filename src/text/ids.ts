const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Returns an id in lower case, or undefined if the text is not a UUID. Call it where an id enters the program:
 * everywhere else, ids are compared as texts.
 */
export const canonicalId = (text: string): string | undefined => (uuid.test(text) ? text.toLowerCase() : undefined);
