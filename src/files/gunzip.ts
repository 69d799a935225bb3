import { pipeline, type Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';

/**
 * Decompresses a stream if it is gzip (RFC 1952), and yields its bytes. Recognises gzip by the first two bytes of the
 * stream.
 */
export async function* gunzipIfPacked(stream: Readable): AsyncGenerator<Buffer> {
  const chunks = stream[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  const first = await firstBytes(chunks);
  const all = followed(first, chunks);
  const isPacked = first[0] === 0x1f && first[1] === 0x8b;
  yield* isPacked ? (pipeline(all, createGunzip(), () => undefined) as unknown as AsyncIterable<Buffer>) : all;
}

/**
 * Reads a stream until at least two bytes have arrived, which are enough to recognise gzip. Returns all bytes that have
 * arrived. These are fewer than two only if the stream has ended.
 */
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
