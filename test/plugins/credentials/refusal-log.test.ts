import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import { pino } from 'pino';
import { expect, onTestFinished, test } from 'vitest';
import { unavailable } from '../../../src/errors.ts';
import errorHandler from '../../../src/plugins/error-handler.ts';
import { loggableError } from '../../../src/process/logger.ts';
import { requestLog } from '../../../src/plugins/request-log.ts';

interface Line {
  msg: string;
  count?: number;
  reasons?: { message: string; count: number; example: string; cause?: object }[];
}

/** Builds an app whose only route throws the given errors, and collects its log lines. */
function failing(): { app: FastifyInstance; fail: (error: Error, times: number) => Promise<unknown>; lines: Line[] } {
  const lines: Line[] = [];
  const sink = { write: (line: string) => void lines.push(JSON.parse(line) as Line) };
  const loggerInstance: FastifyBaseLogger = pino({ serializers: { err: loggableError } }, sink);
  const logController = new LogController({ disableRequestLogging: true });
  const app = fastify({ loggerInstance, logController, genReqId: () => 'traced' });
  void app.register(errorHandler);
  void app.register(requestLog);
  let thrown: Error;
  void app.register(async (scope) => void scope.get('/', async () => Promise.reject(thrown)));
  onTestFinished(() => app.close());
  const fail = (error: Error, times: number) => {
    thrown = error;
    return Promise.all(Array.from({ length: times }, () => app.inject('/')));
  };
  return { app, fail, lines };
}

test('a thousand rejected requests are two log lines: the first, and the count of the others by reason', async () => {
  const { app, fail, lines } = failing();
  await fail(unavailable('The service is at its limit'), 700);
  const cause = Object.assign(new Error('lost'), { code: 'CONNECTION_CLOSED' });
  await fail(unavailable('The database does not answer at the moment', 1, cause), 300);
  await expect.poll(() => lines.length, { timeout: 10_000 }).toBe(2);
  await app.close();
  expect(lines.every(({ msg }) => msg === 'requests not answered')).toBe(true);
  expect(lines.map(({ count }) => count)).toEqual([1, 999]);
  expect(lines[1]!.reasons).toEqual([
    { message: 'The service is at its limit', count: 699, example: 'traced' },
    {
      message: 'The database does not answer at the moment',
      count: 300,
      example: 'traced',
      cause: { type: 'Error', code: 'CONNECTION_CLOSED', message: 'lost' },
    },
  ]);
});
