import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { formats } from '../../src/schemas/formats.ts';

const ajv = new Ajv2020({ allErrors: true, strict: false, formats });
const compiled = new WeakMap<object, ValidateFunction>();

/**
 * Checks every response of an app against the schema that its route declares for the status.
 * @returns the deviations found so far; grows as the app responds
 */
export function watchAnswers(app: FastifyInstance): string[] {
  const faults: string[] = [];
  app.addHook('onSend', async (request, reply, payload) => {
    const declared = request.routeOptions.schema;
    // 405 is of a path without the method, which may be read as a shorter path: GET /contacts/list.
    if (request.is404 || reply.statusCode === 405 || !declared || declared.hide) return payload;
    const fault =
      faultOf(request, reply.statusCode, (declared.response ?? {}) as Record<number, object>, payload) ??
      tagFault(request, reply, payload);
    if (fault) faults.push(`${request.method} ${request.routeOptions.url} ${reply.statusCode}: ${fault}`);
    return payload;
  });
  return faults;
}

function faultOf(
  request: FastifyRequest,
  status: number,
  declared: Record<number, object>,
  payload: unknown,
): string | undefined {
  const schema = declared[status];
  if (!schema) return 'this status is not declared';
  if (request.method === 'HEAD') return undefined;
  const validate = compiled.get(schema) ?? ajv.compile(schema);
  compiled.set(schema, validate);
  ajv.removeSchema(schema); // else it keeps the schemas of all apps of the process
  const text = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.toString() : '';
  const body: unknown = text === '' ? null : JSON.parse(text);
  return validate(body) ? undefined : ajv.errorsText(validate.errors, { dataVar: '' });
}

/** Returns a fault if a response lacks the ETag that its route declares, or has one that is not declared. */
function tagFault({ routeOptions }: FastifyRequest, reply: FastifyReply, payload: unknown): string | undefined {
  const isDeclared = routeOptions.config.etag === true && reply.statusCode < 300 && payload !== 'null';
  return reply.hasHeader('etag') === isDeclared
    ? undefined
    : `the header ETag is ${isDeclared ? 'missing' : 'not declared'}`;
}
