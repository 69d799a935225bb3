import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/** Yields a stream's bytes, decompressed if the first two are those of gzip (RFC 1952). */
export async function* gunzipIfPacked(stream: Readable): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await firstBytes(chunks);
  const all = followed(first, chunks);
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  yield* isPacked ? (pipeline(all, createGunzip(), () => undefined) as unknown as AsyncIterable<Buffer>) : all;
}

/** Returns what has arrived as soon as it is two bytes, or all if the stream ends before. */
async function firstBytes(chunks: AsyncIterator<Buffer>): Promise<Buffer> {
  let bytes = Buffer.alloc(0);
  while (bytes.length < 2) {
    const { value, done } = await chunks.next();
    if (done) break;
    bytes = Buffer.concat([bytes, value]);
  }
  return bytes;
}

async function* followed(first: Buffer, rest: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  if (first.length > 0) yield first;
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value;
}
