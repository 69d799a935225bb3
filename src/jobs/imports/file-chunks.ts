import { chunkBytes } from '../../queries/imports/import-files.ts';

/** Yields chunks of `chunkBytes`; the last can be smaller. */
export async function* inChunks(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let chunk = Buffer.allocUnsafe(chunkBytes);
  let filled = 0;
  for await (const piece of pieces)
    for (let from = 0; from < piece.length;) {
      const copied = piece.copy(chunk, filled, from);
      from += copied;
      filled += copied;
      if (filled < chunkBytes) continue;
      yield chunk;
      chunk = Buffer.allocUnsafe(chunkBytes);
      filled = 0;
    }
  if (filled > 0) yield chunk.subarray(0, filled);
}
