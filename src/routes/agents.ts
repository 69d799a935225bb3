import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import packageJson from '../../package.json' with { type: 'json' };
import { sender } from '../agents/calls.ts';
import { forbidden, validationFailed } from '../errors.ts';
import { callInside } from '../plugins/requester.ts';
import { publicUrl } from '../process/config.ts';
import { scopes } from '../schemas/scopes.ts';

/**
 * Adds the routes of the Model Context Protocol (MCP), through which assistants use the service as tools. A tool calls
 * the routes of the API with the caller's key, so that all their checks and limits apply.
 */
const agents: FastifyPluginAsyncTypebox = async (app) => {
  const { CORS_ORIGINS = '', PUBLIC_URL } = app.config;
  const origins = new Set([new URL(publicUrl(app.config)).origin, ...CORS_ORIGINS.split(',').map((one) => one.trim())]);
  // Loaded at the first message: the protocol's packages take a tenth of the service's start, and few customers use it.
  const open = async () => {
    const { agentHandler } = await import('../agents/server.ts');
    return agentHandler(
      packageJson.version,
      ({ authInfo }) => sender((options) => callInside(authInfo!.extra!['request'] as FastifyRequest, options)),
      (error) => app.log.info({ err: error }, 'a message of an agent was refused'),
    );
  };
  let opened: ReturnType<typeof open> | undefined;
  app.addHook('onClose', async () => (await opened)?.close());

  app.post(
    '/mcp',
    {
      config: { access: { anyScope: scopes }, keyAsBearer: true },
      schema: { hide: true },
      // A page of another site must not use a key that a local program holds (DNS rebinding).
      onRequest: async ({ headers: { origin } }) => {
        if (origin !== undefined && !origins.has(origin)) throw forbidden();
      },
    },
    async (request, reply) => {
      refuseSubscriptions(request.body);
      const { caller } = request;
      const headers = new Headers([
        // Clients must accept both; which of them the response has is up to the protocol.
        ['accept', 'application/json, text/event-stream'],
        ...['content-type', 'mcp-protocol-version', 'mcp-method', 'mcp-name'].flatMap((name) => {
          const value = request.headers[name];
          return typeof value === 'string' ? [[name, value] as [string, string]] : [];
        }),
      ]);
      const serve = await (opened ??= open());
      const response = await serve.fetch(
        new Request(`${PUBLIC_URL ?? 'http://localhost'}/mcp`, {
          method: 'POST',
          headers,
          signal: request.requester.signal!,
        }),
        {
          parsedBody: request.body,
          authInfo: {
            token: '',
            clientId: caller.customerId,
            scopes: caller.kind === 'key' ? [...caller.scopes] : [],
            extra: { request },
          },
        },
      );
      return reply
        .code(response.status)
        .type(response.headers.get('content-type') ?? 'application/json')
        .send(await response.text());
    },
  );
};

export default agents;

/** Rejects subscriptions, and several messages in one body. Rate limits count each request as one message. */
function refuseSubscriptions(body: unknown): void {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw validationFailed([{ path: '', message: 'the body must be one message of JSON-RPC 2.0, not several' }]);
  if ('method' in body && body.method === 'subscriptions/listen')
    throw validationFailed([{ path: '/method', message: 'subscriptions are not offered' }]);
}
