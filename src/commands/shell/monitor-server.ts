import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import errorHandler, { sendError } from '../../plugins/answers/error-handler.ts';
import jsonBody from '../../plugins/bodies/json-body.ts';
import validation from '../../plugins/bodies/validation.ts';
import gracefulClose from '../../plugins/graceful-close.ts';
import httpRules from '../../plugins/http-rules.ts';
import { createServer } from '../../plugins/http-server.ts';
import rateLimits from '../../plugins/limits/rate-limits.ts';
import { refuseOtherMethods, watchPaths } from '../../plugins/method-not-allowed.ts';
import requester from '../../plugins/requester.ts';
import services, { type Services } from '../../plugins/services.ts';
import metrics from '../../plugins/watching/metrics.ts';
import readiness from '../../plugins/watching/readiness.ts';
import requestLog from '../../plugins/watching/request-log.ts';
import health from '../../routes/health.ts';

/**
 * Creates a second HTTP server that serves only health checks and metrics of this process, for operators. The server
 * does not listen on a port yet. Its own requests are not measured.
 */
export function buildMonitor(given: Services): FastifyInstance {
  const app = createServer(given.config, unreadablePath);
  const paths = watchPaths(app);

  void app.register(services, given);
  void app.register(errorHandler);
  void app.register(requestLog);
  void app.register(gracefulClose);
  void app.register(httpRules);
  void app.register(requester);
  void app.register(jsonBody);
  void app.register(validation);
  void app.register(rateLimits);
  void app.register(readiness);

  void app.register(health);
  void app.register(metrics, { isMeasured: false, isExposed: true });

  void app.register(refuseOtherMethods, { paths });
  return app;
}

const unreadablePath = (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void =>
  void sendError(error, request, reply.header('x-request-id', request.id));
