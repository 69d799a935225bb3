import cookie from '@fastify/cookie';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { plugin } from '../plugins/plugin.ts';
import helmet from 'helmet';
import type { Config } from '../process/config.ts';
import { DomainError } from '../errors.ts';
import { sendError } from '../plugins/error-handler.ts';
import { setCommonHeaders } from '../plugins/request-log.ts';
import { isHttps } from '../plugins/auth.ts';
import { activities } from './records/activities.ts';
import { assets, errorPage } from './base/layout.ts';
import { readForm, requireToken } from './base/requests.ts';
import { approvals } from './approvals.ts';
import { credits, jobs } from './jobs.ts';
import { imports } from './imports.ts';
import { prospects } from './records/prospects.ts';
import { duplicates } from './records/duplicates.ts';
import { lists } from './records/lists.ts';
import { opportunities } from './records/opportunities.ts';
import { pipelines } from './records/pipelines.ts';
import { products } from './records/products.ts';
import { records } from './records/records.ts';
import { start } from './start.ts';
import { changes } from './changes.ts';
import { fields } from './fields.ts';
import { keys } from './keys.ts';
import { users } from './users.ts';
import { webhooks } from './webhooks.ts';

/**
 * Serves the pages under `/app`. Users log in and see only their own customer's data. The pages also work without
 * JavaScript.
 */
export default plugin({ name: 'pages', dependencies: ['auth', 'error-handler'] }, async (app) => {
  // No route, because `/` is an unknown path for everybody but browsers.
  app.addHook('onRequest', (request, reply, done) => {
    if (isVisitOfRoot(request)) void reply.header('vary', 'accept').redirect('/app', 303);
    else done();
  });
  await app.register(pages, { prefix: '/app' });
});

const isVisitOfRoot = (request: FastifyRequest): boolean =>
  request.is404 &&
  /^\/(\?|$)/.test(request.url) &&
  ['GET', 'HEAD'].includes(request.method) &&
  /\btext\/html\b/.test(request.headers.accept ?? '');

/**
 * Handles requests whose path Fastify cannot decode, e.g. with invalid percent-encoding. Sends a page for paths below
 * `/app`, else an error of the API.
 */
export function unreadablePaths({ PUBLIC_URL }: Config) {
  const protect = helmet(protection(PUBLIC_URL));
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply): void => {
    setCommonHeaders(request, reply);
    if (!request.url.startsWith('/app/')) return void sendError(error, request, reply);
    protect(request.raw, reply.raw, () => void errorPage(error, request, reply));
  };
}

async function pages(app: FastifyInstance): Promise<void> {
  app.setErrorHandler(errorPage);
  app.setNotFoundHandler((request, reply) =>
    errorPage(new DomainError('not_found', 'There is no such page'), request, reply),
  );
  const protect = helmet(protection(app.config.PUBLIC_URL));
  // Not @fastify/helmet: its hook runs after the authentication, so redirects to the login would lack the headers.
  app.addHook('onSend', (request, reply, payload, done) => {
    protect(request.raw, reply.raw, () => done(null, payload));
  });
  await app.register(cookie);
  app.removeAllContentTypeParsers(); // no page takes JSON
  const urlEncoded = 'application/x-www-form-urlencoded';
  app.addContentTypeParser(urlEncoded, { parseAs: 'string' }, async (_request: FastifyRequest, body: string) =>
    readForm(body),
  );
  app.addHook('onRoute', (route) => {
    if (route.bodyLimit !== undefined) route.bodyLimit = Math.min(route.bodyLimit, maxFormBytes);
  });
  app.addHook('preValidation', async (request) => {
    const { method, routeOptions } = request;
    if (method === 'POST' && !routeOptions.config.takesFile) requireToken(request, request.body);
  });

  const groups = [
    [assets, users, start],
    [records, activities, lists, duplicates, opportunities, pipelines, products, prospects],
    [imports, jobs, credits, changes],
    [keys, approvals, webhooks, fields],
  ];
  for (const group of groups.flat()) await app.register(group);
}

const maxFormBytes = 256 * 1024;

/** Returns the security headers of the pages. They allow only resources of this service. */
const protection = (publicUrl: string | undefined) => ({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      connectSrc: ["'self'"],
      formAction: ["'self'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
      ...(isHttps(publicUrl) ? { upgradeInsecureRequests: [] } : {}),
    },
  },
  // The pages read it to return to the page where a session ended. Other sites do not get it.
  referrerPolicy: { policy: 'same-origin' as const },
  strictTransportSecurity: false, // a matter of whoever terminates TLS, because it holds for the whole host
  xFrameOptions: { action: 'deny' as const },
});
