-- oldest release: 1.0.0
-- Webhooks: the endpoints to which the events of a customer are sent. An endpoint is a position in the customer's feed,
-- and the events that are set aside because their delivery failed.

create table webhook_endpoints (
  customer_id           uuid           not null,
  id                    uuid           not null default uuidv7(),
  url                   text           not null,
  types                 text[]         not null,
  bulk                  boolean        not null,
  description           text           not null,
  active                boolean        not null default true,
  disabled_reason       text,
  secret                bytea          not null,
  previous_secret       bytea,
  previous_until        timestamptz(3),
  first_position        bigint         not null,
  position              bigint         not null,
  position_id           uuid,
  inactive_from         bigint,
  gaps                  jsonb          not null default '[]',
  replay_position       bigint,
  replay_id             uuid,
  replay_end            bigint,
  failures_in_row       integer        not null default 0,
  failing_since         timestamptz(3),
  last_success_at       timestamptz(3),
  last_failure_at       timestamptz(3),
  given_up              bigint         not null default 0,
  set_aside             integer        not null default 0,
  retry_at              timestamptz(3),
  failures              integer        not null default 0,
  lease                 uuid,
  leased_until          timestamptz(3),
  served_at             timestamptz(3),
  created_at            timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  constraint webhook_endpoints_pkey primary key (customer_id, id),
  constraint webhook_endpoints_types_given check (cardinality(types) > 0),
  constraint webhook_endpoints_reason_known check (disabled_reason in ('gone', 'failing')),
  constraint webhook_endpoints_disabled_inactive check (disabled_reason is null or not active),
  constraint webhook_endpoints_previous_whole check ((previous_secret is null) = (previous_until is null)),
  constraint webhook_endpoints_inactive_from check ((inactive_from is null) = active),
  constraint webhook_endpoints_replay_whole check ((replay_position is null) = (replay_end is null)),
  constraint webhook_endpoints_failing_whole check ((failures_in_row = 0) = (failing_since is null)),
  constraint webhook_endpoints_set_aside_bounded check (set_aside between 0 and 1000),
  constraint webhook_endpoints_lease_whole check ((lease is null) = (leased_until is null))
) with (fillfactor = 50);
-- place: webhook_endpoints
comment on column webhook_endpoints.disabled_reason is
  'Why the service has disabled the endpoint: it answered 410 (gone), or only failed for days (failing).';
comment on column webhook_endpoints.secret is
  'Encrypted with the key of the installation, together with customer_id: nonce (12 bytes), ciphertext, tag (16).';
comment on column webhook_endpoints.previous_secret is
  'The secret before the last rotation. Deliveries are signed with both until previous_until.';
comment on column webhook_endpoints.first_position is 'The end of the feed when the endpoint was created: a replay begins here at the earliest.';
comment on column webhook_endpoints.position is
  'Every event up to this position was delivered, set aside, or not wanted.';
comment on column webhook_endpoints.position_id is 'Id of the event at this position; null at the beginning of the feed.';
comment on column webhook_endpoints.inactive_from is 'The end of the feed when the endpoint became inactive.';
comment on column webhook_endpoints.gaps is
  'Parts of the feed after position that are not sent, because the endpoint was inactive: [[after, up to], …].';
comment on column webhook_endpoints.replay_position is
  'As position, of a replay, which sends again what follows up to replay_end. Null: no replay is under way.';
comment on column webhook_endpoints.replay_id is 'As position_id.';
comment on column webhook_endpoints.failures_in_row is 'Deliveries that failed since the last that succeeded.';
comment on column webhook_endpoints.set_aside is 'Number of rows in webhook_retries.';
comment on column webhook_endpoints.retry_at is 'When the next event that is set aside is to be tried. Null: none is.';
comment on column webhook_endpoints.failures is 'As in jobs.';
comment on column webhook_endpoints.lease is 'As in jobs.';
comment on column webhook_endpoints.served_at is 'As in jobs.';

create table webhook_retries (
  customer_id uuid           not null,
  endpoint_id uuid           not null,
  position    bigint         not null,
  event_id    uuid           not null,
  type        text           not null,
  body        text           not null,
  attempts    smallint       not null,
  due_at      timestamptz(3) not null,
  constraint webhook_retries_pkey primary key (customer_id, endpoint_id, position),
  constraint webhook_retries_attempted check (attempts > 0)
);
-- place: webhook_retries
comment on table webhook_retries is 'Events whose delivery to an endpoint failed, and that are to be tried again.';
comment on column webhook_retries.body is 'What is sent. It is kept here because the feed may be removed before the last try.';

alter table webhook_retries add constraint webhook_retries_endpoint_fkey
  foreign key (customer_id, endpoint_id) references webhook_endpoints (customer_id, id) on delete cascade;

create table webhook_deliveries (
  customer_id     uuid           not null,
  endpoint_id     uuid           not null,
  id              uuid           not null default uuidv7(),
  event_id        uuid           not null,
  type            text           not null,
  attempt         smallint       not null,
  ok              boolean        not null,
  status          smallint,
  error           text,
  ms              integer        not null,
  sent_at         timestamptz(3) not null,
  next_attempt_at timestamptz(3),
  constraint webhook_deliveries_pkey primary key (customer_id, endpoint_id, id),
  constraint webhook_deliveries_error_known check (error in ('dns', 'address', 'connect', 'tls', 'timeout', 'status', 'redirect')),
  constraint webhook_deliveries_fails_with_error check (ok = (error is null))
);
-- place: webhook_deliveries
create index webhook_deliveries_failed on webhook_deliveries (customer_id, endpoint_id, id) where not ok;
create index webhook_deliveries_age on webhook_deliveries (sent_at);
comment on table webhook_deliveries is
  'Each try to deliver an event. Kept for 30 days. No foreign key: rows of a deleted endpoint are removed with the old ones.';

grant select, insert, update, delete on webhook_endpoints, webhook_retries, webhook_deliveries to sales_data_api;
