-- oldest release: 1.1.0
-- What an endpoint wants becomes rows of webhook_deliveries, one for each try. Until here, tries that failed were set aside in a
-- table of their own, and an endpoint had a position, gaps and a replay. Now it has the ranges of the feed that are ahead
-- of it. Nothing that waits is lost.

alter table webhook_endpoints add column ahead int8multirange not null default '{}';
alter table webhook_endpoints add column pending integer not null default 0;
alter table webhook_endpoints add column next_at timestamptz(3);
alter table webhook_endpoints add column taken_by uuid;
alter table webhook_endpoints add column taken_until timestamptz(3);

update webhook_endpoints
set ahead = case
  when inactive_from is null then int8multirange(int8range(position + 1, null))
  else int8multirange(int8range(position + 1, greatest(inactive_from, position) + 1))
end;
update webhook_endpoints e
set ahead = e.ahead - g.gaps
from (
  select w.customer_id, w.id, range_agg(int8range((gap ->> 0)::bigint + 1, (gap ->> 1)::bigint + 1)) as gaps
  from webhook_endpoints w
  cross join lateral jsonb_array_elements(w.gaps) as gap
  group by w.customer_id, w.id
) g
where e.id = g.id
  and e.customer_id = g.customer_id;
update webhook_endpoints
set ahead = ahead + int8multirange(
  int8range(
    greatest(replay_position, first_position) + 1,
    greatest(replay_position, first_position, replay_end) + 1
  )
)
where replay_position is not null;
update webhook_endpoints e
set pending = r.pending, next_at = r.next_at
from (
  select customer_id, endpoint_id, count(*)::integer as pending, min(due_at) as next_at
  from webhook_retries
  group by customer_id, endpoint_id
) r
where e.id = r.endpoint_id
  and e.customer_id = r.customer_id;

alter table webhook_deliveries add column position bigint;
alter table webhook_deliveries add column due_at timestamptz(3);
alter table webhook_deliveries alter column ok drop not null;
alter table webhook_deliveries alter column ms drop not null;
alter table webhook_deliveries alter column sent_at drop not null;
insert into webhook_deliveries (customer_id, endpoint_id, position, event_id, type, attempt, due_at)
select customer_id, endpoint_id, position, event_id, type, attempts + 1, due_at
from webhook_retries;
drop table webhook_retries;
drop table webhook_customers;

alter table webhook_endpoints drop column position;
alter table webhook_endpoints drop column position_id;
alter table webhook_endpoints drop column inactive_from;
alter table webhook_endpoints drop column gaps;
alter table webhook_endpoints drop column replay_position;
alter table webhook_endpoints drop column replay_id;
alter table webhook_endpoints drop column set_aside;
alter table webhook_endpoints drop column retry_at;
alter table webhook_endpoints drop column failures;
alter table webhook_endpoints drop column lease;
alter table webhook_endpoints drop column leased_until;
alter table webhook_endpoints drop column served_at;

alter table webhook_endpoints add constraint webhook_endpoints_active_goes_on check (active = upper_inf(ahead));
alter table webhook_endpoints add constraint webhook_endpoints_pending_due check ((pending = 0) = (next_at is null));
alter table webhook_endpoints add constraint webhook_endpoints_taken_whole check ((taken_by is null) = (taken_until is null));
alter table webhook_deliveries add constraint webhook_deliveries_due_or_done
  check ((due_at is null) = (ok is not null and ms is not null and sent_at is not null));
alter table webhook_deliveries add constraint webhook_deliveries_due_in_feed check (due_at is null or position is not null);
create unique index webhook_deliveries_pending on webhook_deliveries (customer_id, endpoint_id, position)
  where due_at is not null;

comment on table webhook_deliveries is
  'The tries to deliver an event, one row each: those to come have a time, the others ended in the last 30 days. No foreign key: old rows of a deleted endpoint are removed with the others.';
comment on column webhook_deliveries.due_at is 'When the event is to be tried; it is tried then, or is under way. Null: it was tried.';
comment on column webhook_deliveries.next_attempt_at is 'Of a try that failed: when the event was to be tried again. Null: not again.';
comment on column webhook_endpoints.ahead is
  'Positions of the feed from which deliveries are still to be made. An active endpoint has all to come; a replay adds those before.';
comment on column webhook_endpoints.pending is 'Number of deliveries that are due or wait.';
comment on column webhook_endpoints.next_at is
  'When the next delivery is due. After 20 failures in a row it is the oldest one. An endpoint without one is looked at when the feed goes on.';
comment on column webhook_endpoints.replay_end is
  'The end of the last replay. It is under way until each event up to here was tried once.';
comment on column webhook_endpoints.taken_by is 'The worker that sends to the endpoint, until taken_until at most.';
comment on column webhook_endpoints.failures_in_row is 'Tries that failed since the last that succeeded.';
