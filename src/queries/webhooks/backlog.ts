import type { Sql } from '../../database/db.ts';
import { isAhead } from './endpoints.ts';

/** What endpoints that are active have not got yet. */
export interface WebhookBacklog {
  /** Whether the last delivery failed. */
  standing: 'working' | 'failing';
  /** Pending deliveries, and the events that the endpoints are to get, among the next 1,000. */
  waiting: number;
  /** Age of the oldest of them (seconds); of a failing endpoint, at least since when it fails. 0: there is none. */
  oldest_seconds: number;
}

export const readWebhookBacklog = (sql: Sql): Promise<WebhookBacklog[]> =>
  sql<WebhookBacklog[]>`
    with endpoints as (
      select
        e.customer_id,
        e.id,
        e.failing_since,
        e.pending + count(j.position) as waiting,
        least(min(j.occurred_at), e.failing_since, e.next_at) as since
      from webhook_endpoints e
      join customers c on c.id = e.customer_id
      left join journal j
        on j.customer_id = e.customer_id
        and j.position >= lower(e.ahead)
        and j.position < lower(e.ahead) + ${mostLookedAt}
        and ${isAhead(sql)}
      where e.active
        and c.status = 'OK'
      group by e.customer_id, e.id
    )
    select
      case when failing_since is null then 'working' else 'failing' end as standing,
      sum(waiting)::bigint as waiting,
      greatest(0, extract(epoch from now() - min(since))::float8) as oldest_seconds
    from endpoints
    group by 1`;

/** So many positions ahead of an endpoint are looked at. */
const mostLookedAt = 1_000;
