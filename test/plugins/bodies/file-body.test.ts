import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import type { FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { fileOf } from '../../../src/plugins/bodies.ts';

test(
  'a caller who hangs up, before or while a packed file is read, ends the reading',
  { timeout: 10_000 },
  async () => {
    for (const isEarly of [true, false]) {
      const raw = new PassThrough().on('error', () => undefined);
      raw.write(gzipSync('half a file').subarray(0, 20));
      const closed = new Promise((resolve) => raw.once('close', resolve));
      const hangUp = () => void raw.destroy(new Error('aborted'));
      if (isEarly) {
        hangUp();
        await closed;
      }
      const request = { raw, headers: { 'content-encoding': 'gzip' } } as unknown as FastifyRequest;
      const reading = buffer(fileOf(request, 1_000));
      if (!isEarly) setImmediate(hangUp);
      await expect(reading).rejects.toThrow('aborted');
    }
  },
);
