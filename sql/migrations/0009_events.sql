-- oldest release: 1.0.0
-- Events: what changed, for followers of the feed and for webhooks. A transaction inserts its events as its last step, as
-- one row without a position. A reader gives positions to committed rows, under the lock of the customer's row in
-- event_heads, so no event can appear before a position that was already read. See docs/architecture.md, "The life of a
-- change".

create sequence event_numbers;
grant usage on sequence event_numbers to sales_data_api;

create table events (
  customer_id   uuid           not null,
  part          smallint       not null default ((extract(epoch from statement_timestamp())::bigint / 345600) % 16)::smallint,
  number        bigint         not null default nextval('event_numbers'),
  id            uuid           not null default uuidv7(),
  occurred_at   timestamptz(3) not null default clock_timestamp(),
  source        text           not null,
  types         text[]         not null,
  size          smallint       not null,
  entries       json           not null,
  last_position bigint,
  previous_id   uuid,
  constraint events_pkey primary key (customer_id, number, part),
  constraint events_source_known check (source in ('api', 'page', 'import', 'job', 'command')),
  constraint events_size_bounded check (size between 1 and 1000)
) partition by list (part);
-- place: events
create index events_waiting on events (customer_id, number) where last_position is null;
create index events_numbered on events (customer_id, last_position) where last_position is not null;
comment on column events.part is
  'The partition: each is used for four days, in turn. A worker truncates a partition whose events are too old, long before its next turn.';
comment on column events.number is
  'In the order of inserts. A transaction takes it after it has locked its records, so the events of one record have ascending numbers. On Citus the coordinator gives it.';
comment on column events.id is 'The ids of the events are this id with the index of the event in its last ten bits.';
comment on column events.types is 'The different types of the events, so that readers can skip rows.';
comment on column events.size is 'How many events the row has.';
comment on column events.entries is 'The events, in order: [type, data].';
comment on column events.last_position is
  'Position of the last event of the row in the feed of its customer; null until a reader has given it. Positions have no gap.';
comment on column events.previous_id is
  'Id of the event before those of the row, perhaps with another index; null: there was none. So a reader who has read that event can go on after it is removed.';

create table events_00 partition of events for values in (0);
create table events_01 partition of events for values in (1);
create table events_02 partition of events for values in (2);
create table events_03 partition of events for values in (3);
create table events_04 partition of events for values in (4);
create table events_05 partition of events for values in (5);
create table events_06 partition of events for values in (6);
create table events_07 partition of events for values in (7);
create table events_08 partition of events for values in (8);
create table events_09 partition of events for values in (9);
create table events_10 partition of events for values in (10);
create table events_11 partition of events for values in (11);
create table events_12 partition of events for values in (12);
create table events_13 partition of events for values in (13);
create table events_14 partition of events for values in (14);
create table events_15 partition of events for values in (15);

create table event_heads (
  customer_id   uuid           not null,
  position      bigint         not null default 0,
  last_id       uuid,
  settled       bigint         not null default 0,
  candidate     bigint         not null default 0,
  candidate_at  timestamptz(3) not null default clock_timestamp(),
  swept_at      timestamptz(3) not null default clock_timestamp(),
  constraint event_heads_pkey primary key (customer_id),
  constraint event_heads_position_not_negative check (position >= 0),
  constraint event_heads_id_with_position check ((last_id is null) = (position = 0))
) with (fillfactor = 50);
-- place: event_heads
comment on table event_heads is
  'The end of the feed of each customer that ever read it. Whoever gives positions to events locks the row first.';
comment on column event_heads.position is 'The highest position given.';
comment on column event_heads.last_id is
  'Id of the event at this position. So a reader who has read everything can always go on, even if the event is removed.';
comment on column event_heads.settled is
  'Rows with this number or a lower one have their positions: they are looked for only now and then. So index entries of dead rows, which a long transaction keeps, cost nothing.';
comment on column event_heads.candidate is 'The highest number that had a position at candidate_at: the next value of settled.';
comment on column event_heads.swept_at is 'When rows with any number were last looked for.';

alter table credit_balances add column low_mark bigint;
comment on column credit_balances.low_mark is
  'The last grant, until the event credits.low tells that less than a tenth of it is available.';

grant select, insert on events to sales_data_api;
grant update (last_position, previous_id) on events to sales_data_api;
grant truncate on events_00, events_01, events_02, events_03, events_04, events_05, events_06, events_07, events_08, events_09, events_10, events_11, events_12, events_13, events_14, events_15 to sales_data_api;
grant select, insert, update on event_heads to sales_data_api;
