import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import errorHandler, { sendError } from '../plugins/error-handler.ts';
import { jsonBody, validation } from '../plugins/bodies.ts';
import { gracefulClose, httpRules, createServer, refuseOtherMethods, refuseUnknownPaths } from '../plugins/http.ts';
import { rateLimits } from '../plugins/rate-limits.ts';
import { requester, services, type Services } from '../plugins/requester.ts';
import { metrics, readiness } from '../plugins/metrics.ts';
import { requestLog } from '../plugins/request-log.ts';
import health from '../routes/health.ts';

export function buildMonitor(given: Services): FastifyInstance {
  const app = createServer(given.config, unreadablePath);

  void app.register(services, given);
  void app.register(errorHandler);
  void app.register(requestLog);
  void app.register(gracefulClose);
  void app.register(httpRules);
  void app.register(requester);
  void app.register(refuseOtherMethods);
  void app.register(jsonBody);
  void app.register(validation);
  void app.register(rateLimits);
  void app.register(readiness);

  void app.register(health);
  void app.register(metrics, { isMeasured: false, isExposed: true });

  void app.register(refuseUnknownPaths);
  return app;
}

const unreadablePath = (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void =>
  void sendError(error, request, reply.header('x-request-id', request.id));
