import type { FastifyInstance } from 'fastify';
import pages, { unreadablePaths } from './pages/pages.ts';
import { auth, clientAddress as callerAddress } from './plugins/auth.ts';
import { bodyMemory, jsonBody, validation } from './plugins/bodies.ts';
import {
  crossOrigin as cors,
  gracefulClose,
  httpRules,
  createServer,
  refuseOtherMethods,
  refuseUnknownPaths,
} from './plugins/http.ts';
import declaredResponses from './plugins/responses.ts';
import eventWaits from './plugins/event-waits.ts';
import docs from './plugins/docs.ts';
import errorHandler from './plugins/error-handler.ts';
import idempotency from './plugins/idempotency.ts';
import { metrics, readiness } from './plugins/metrics.ts';
import openapi from './plugins/openapi.ts';
import { overload, rateLimits } from './plugins/rate-limits.ts';
import { requestLog, traces } from './plugins/request-log.ts';
import { requester, services, type Services, webhookSender } from './plugins/requester.ts';
import agents from './routes/agents.ts';
import apiKeys from './routes/api-keys.ts';
import companies from './routes/companies.ts';
import batches from './routes/batches.ts';
import changes from './routes/changes.ts';
import events from './routes/events.ts';
import fields from './routes/fields.ts';
import cleanData from './routes/clean-data.ts';
import contacts from './routes/contacts.ts';
import customer from './routes/customers.ts';
import health from './routes/health.ts';
import imports from './routes/imports.ts';
import serviceJobs from './routes/jobs.ts';
import lists from './routes/lists.ts';
import activities from './routes/activities.ts';
import opportunities from './routes/opportunities.ts';
import products from './routes/products.ts';
import prospects from './routes/prospects.ts';
import sessions from './routes/sessions.ts';
import webhooks from './routes/webhooks.ts';

/**
 * Creates the HTTP server of the API, with all plugins and routes. It does not listen on a port yet.
 * @param given These services stay open when the server closes.
 */
export function buildApp(given: Services): FastifyInstance {
  const app = createServer(given.config, unreadablePaths(given.config));

  void app.register(services, given);
  void app.register(errorHandler);
  void app.register(traces);
  void app.register(requestLog);
  void app.register(gracefulClose);
  void app.register(httpRules);
  void app.register(callerAddress);
  void app.register(requester);
  void app.register(cors);
  void app.register(refuseOtherMethods);
  void app.register(jsonBody);
  void app.register(validation);
  void app.register(idempotency);
  void app.register(declaredResponses);
  void app.register(openapi);
  void app.register(docs);
  void app.register(rateLimits);
  void app.register(auth);
  void app.register(overload);
  void app.register(bodyMemory);
  void app.register(webhookSender);
  void app.register(readiness);
  void app.register(eventWaits);

  void app.register(health);
  void app.register(metrics, { isMeasured: true, isExposed: given.config.METRICS_PORT === undefined });
  void app.register(sessions, { prefix: '/api/auth' });
  void app.register(apiKeys);
  void app.register(webhooks, { prefix: '/api/webhook', by: 'session' });
  void app.register(webhooks, { prefix: '/api/ext/webhooks', by: 'key' });
  void app.register(customer, { prefix: '/api/ext' });
  void app.register(contacts, { prefix: '/api/ext' });
  void app.register(companies, { prefix: '/api/ext' });
  void app.register(batches, { prefix: '/api/ext' });
  void app.register(cleanData, { prefix: '/api/ext' });
  void app.register(lists, { prefix: '/api/ext' });
  void app.register(events, { prefix: '/api/ext' });
  void app.register(changes, { prefix: '/api/ext' });
  void app.register(fields, { prefix: '/api/ext', by: 'key' });
  void app.register(fields, { prefix: '/api', by: 'session' });
  void app.register(products, { prefix: '/api/ext' });
  void app.register(opportunities, { prefix: '/api/ext' });
  void app.register(activities, { prefix: '/api/ext' });
  void app.register(prospects, { prefix: '/api/ext' });
  void app.register(serviceJobs, { prefix: '/api/ext' });
  void app.register(imports, { prefix: '/api/ext' });
  void app.register(agents);
  void app.register(pages);

  void app.register(refuseUnknownPaths);
  return app;
}
