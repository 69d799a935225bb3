/** A text's length in code points, as JSON Schema counts it. */
export const lengthOf = (text: string): number => Array.from(text).length;
