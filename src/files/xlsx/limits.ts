const mebibyte = 1024 * 1024;

/** Of all parts of the file together, and of the rows that are read from it. */
export const maxUnpackedBytes = 512 * mebibyte;
/** Of the texts that cells share: they are held in memory. */
export const maxSharedBytes = 64 * mebibyte;
/** Of the parts that list sheets and styles. */
export const maxIndexBytes = 16 * mebibyte;
/** Without the header row. */
export const maxRows = 200_000;
/** Limits of every spreadsheet program. */
export const maxRowNumber = 1_048_576;
export const maxColumnNumber = 16_384;
/**
 * Characters. Excel takes half as many. A few bytes of XML can name a text that is shared, so this also limits what a
 * piece of a sheet can become.
 */
export const maxCellLength = 65_536;
