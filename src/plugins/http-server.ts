import fastify, { LogController, type FastifyError, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Config } from '../process/config.ts';
import { logger } from '../process/logger.ts';
import { answerClientError } from './answers/client-error.ts';
import { requestId } from './watching/request-log.ts';

type ErrorAnswer = (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => void;

/** @param frameworkErrors answers requests whose path Fastify cannot read: it runs no hook for them */
export function createServer(config: Config, frameworkErrors: ErrorAnswer) {
  const app = fastify(options(config, frameworkErrors));
  app.server.maxConnections = config.MAX_CONNECTIONS;
  // GET and HEAD accept the body `{}` and reject any other, like every call without a body.
  for (const method of ['GET', 'HEAD']) app.addHttpMethod(method, { hasBody: true, overrideExisting: true });
  return app;
}

function options(config: Config, frameworkErrors: ErrorAnswer) {
  return {
    loggerInstance: logger(config),
    logController: new LogController({ disableRequestLogging: true }), // watching/request-log.ts logs requests
    genReqId: requestId,
    requestIdHeader: false as const,
    return503OnClosing: false, // graceful-close.ts answers such requests with an error body
    bodyLimit: 16 * 1024, // without a credential; credentials/auth.ts allows more with one
    // A slow sender cannot hold a connection: the whole request must arrive within these times. `requestTimeout` is set
    // here because Fastify overwrites the server's value with its own option.
    requestTimeout: 30_000,
    connectionTimeout: 30_000, // without a byte in either direction
    http: {
      headersTimeout: 10_000,
      connectionsCheckingInterval: 1_000,
      requireHostHeader: false, // http-rules.ts requires the header and sends an error body
    },
    // Longer than any request line, so an overlong id is rejected like every other invalid id.
    routerOptions: { maxParamLength: 1_000_000 },
    clientErrorHandler: answerClientError,
    frameworkErrors,
  };
}
