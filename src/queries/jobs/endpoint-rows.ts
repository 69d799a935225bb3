import type { Queryable } from '../../database/db.ts';
import type { EventType } from '../../schemas/events/types.ts';

export const maxSetAside = 1_000;

/** After so many failures in a row, only the oldest event that is set aside is tried. */
export const stuckAfter = 20;

export interface EndpointRow {
  customer_id: string;
  id: string;
  type: 'webhook';
  url: string;
  types: EventType[];
  bulk: boolean;
  active: boolean;
  first_position: number;
  position: number;
  position_id: string | null;
  /** End of the feed when it became inactive; null while it is active. */
  inactive_from: number | null;
  /** Parts of the feed that are not sent: [after, up to]. */
  gaps: [number, number][];
  replay_position: number | null;
  replay_id: string | null;
  replay_end: number | null;
  failures_in_row: number;
  failing_since: string | null;
  last_success_at: string | null;
  set_aside: number;
  /** Errors of the service itself, as in jobs. */
  failures: number;
}

export const endpointColumns = (sql: Queryable) => sql`
  customer_id, id, 'webhook' as type, url, types, bulk, active, first_position, position, position_id, inactive_from,
  gaps, replay_position, replay_id, replay_end, failures_in_row, failing_since, last_success_at, set_aside, failures`;

/** The endpoint `e` is to get the row `j` of the journal, and has not got it yet. */
export const isWaiting = (sql: Queryable) => sql`
  j.type = any(e.types)
  and j.position > e.position
  and (e.bulk or j.source not in ('import', 'job') or j.type like '%.ended')
  and (e.inactive_from is null or j.position <= e.inactive_from)
  and not exists (
    select 1
    from jsonb_array_elements(e.gaps) as gap
    where j.position > (gap ->> 0)::bigint
      and j.position <= (gap ->> 1)::bigint
  )`;
