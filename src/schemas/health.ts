import type { Static } from '@sinclair/typebox';
import { Described, Enum, Named } from './wire.ts';

const Part = (text: string) => Enum(['up', 'degraded'], `\`degraded\`: ${text}`);

/** Schema of the response of `/readyz`. */
export const Readiness = Named('Readiness', {
  status: Enum(
    ['ready', 'not ready', 'stopping'],
    '`stopping`: the process got SIGTERM. It still serves requests, but load balancers should send it no more.',
  ),
  checks: Described('The state of what the service needs.', {
    postgres: Enum(['up', 'down'], 'Whether the database can be reached.'),
    schema: Enum(
      ['current', 'behind', 'ahead', 'unknown'],
      'The schema of the database, compared with this release. `ahead` is ready if the newer release says that this one can run on it.',
    ),
    catalog: Part('the prospect catalog is unavailable. Everything except `/prospect/*` works.'),
    rate_limits: Part('the shared server is unavailable. Each process counts rate limits alone.'),
    workers: Part('a job has waited for a minute, and no worker was seen for a minute. Calls still work.'),
    verification: Part('the name server of the workers knows no domain, so verifications wait. Calls still work.'),
    webhooks: Part('there is no `WEBHOOK_SECRET_KEY`. Webhooks wait, and none can be created.'),
    storage: Part('the last write failed because the disk of the database is full. Reads still work.'),
  }),
});
export type Readiness = Static<typeof Readiness>;
