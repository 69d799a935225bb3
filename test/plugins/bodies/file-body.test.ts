import { PassThrough } from 'node:stream';
import { gzipSync } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { fileOf } from '../../../src/plugins/bodies.ts';

const encodings = [{}, { 'content-encoding': 'gzip' }];

/** Reads the file in the body of a request to its end. */
async function read(raw: PassThrough, headers: object): Promise<string> {
  const request = { raw, headers } as unknown as FastifyRequest;
  let text = '';
  for await (const piece of fileOf(request, 1_000)) text += piece.toString();
  return text;
}

test.each(encodings)(
  'a caller who hung up before the file is read ends the reading: %j',
  { timeout: 10_000 },
  async (headers) => {
    const raw = new PassThrough().on('error', () => undefined);
    raw.write(gzipSync('half a file').subarray(0, 20));
    raw.destroy(new Error('aborted'));
    await new Promise((resolve) => raw.once('close', resolve));
    await expect(read(raw, headers)).rejects.toThrow('aborted');
  },
);

test.each(encodings)(
  'a caller who hangs up while the file is read ends the reading: %j',
  { timeout: 10_000 },
  async (headers) => {
    const raw = new PassThrough().on('error', () => undefined);
    raw.write(gzipSync('half a file').subarray(0, 20));
    const reading = read(raw, headers);
    setImmediate(() => raw.destroy(new Error('aborted')));
    await expect(reading).rejects.toThrow('aborted');
  },
);

test('the stream of the request is left open when a file is refused half-way', async () => {
  const raw = new PassThrough();
  raw.write(gzipSync('x'.repeat(2_000)));
  await expect(read(raw, { 'content-encoding': 'gzip' })).rejects.toThrow('larger than');
  expect([raw.destroyed, raw.listenerCount('error')]).toEqual([false, 0]);
});
