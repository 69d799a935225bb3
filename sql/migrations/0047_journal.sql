-- oldest release: 1.1.0
-- One clock for each customer. A transaction numbers what it has done as its last step, under a lock of the customer, so the
-- order of positions is the order of commits. Until here, events got their positions from whoever read them first, and
-- totals were counters of 32 rows. Existing events keep their ids and get positions, so cursors and webhooks go on.

create table journal (
  customer_id uuid           not null,
  part        smallint       not null,
  position    bigint         not null,
  id          uuid           not null,
  occurred_at timestamptz(3) not null,
  type        text           not null,
  source      text           not null,
  actor       json,
  change_id   uuid,
  record_id   uuid,
  data        json           not null,
  before      json,
  after       json,
  contacts    bigint         not null,
  companies   bigint         not null,
  constraint journal_pkey primary key (customer_id, position, part),
  constraint journal_source_known check (source in ('api', 'page', 'import', 'job', 'command'))
) partition by list (part);
-- place: journal
comment on table journal is
  'What happened with the records of each customer. The feed of changes and webhooks read it.';
comment on column journal.part is
  'The partition: each is used for eight days, in turn. A worker truncates a partition whose rows are too old, long before its next turn.';
comment on column journal.position is 'Place in the feed of the customer. Positions have no gap.';
comment on column journal.id is 'Random: a restored database gives the positions that it lost again, to other events.';
comment on column journal.change_id is 'The same for all rows of one call, job or import.';
comment on column journal.data is 'What readers of the feed get, without source, actor and change_id.';
comment on column journal.before is
  'Of an update the columns that it has changed, as they were; of a deletion the columns of the record.';
comment on column journal.after is 'Of an update: the columns that it has changed.';
comment on column journal.contacts is
  'The exact number of contacts of the customer after this transaction. The newest row is the one that counts.';
comment on column journal.companies is 'As contacts.';

create table journal_00 partition of journal for values in (0);
create table journal_01 partition of journal for values in (1);
create table journal_02 partition of journal for values in (2);
create table journal_03 partition of journal for values in (3);
create table journal_04 partition of journal for values in (4);
create table journal_05 partition of journal for values in (5);
create table journal_06 partition of journal for values in (6);
create table journal_07 partition of journal for values in (7);
create table journal_08 partition of journal for values in (8);
create table journal_09 partition of journal for values in (9);
create table journal_10 partition of journal for values in (10);
create table journal_11 partition of journal for values in (11);
create table journal_12 partition of journal for values in (12);
create table journal_13 partition of journal for values in (13);
create table journal_14 partition of journal for values in (14);
create table journal_15 partition of journal for values in (15);

create table journal_ends (
  customer_id uuid   not null,
  position    bigint not null,
  id          uuid,
  contacts    bigint not null,
  companies   bigint not null,
  constraint journal_ends_pkey primary key (customer_id)
);
-- place: journal_ends
comment on table journal_ends is
  'The newest row of each customer that was truncated: the journal goes on behind it. Before the first truncation there is none.';

grant select, insert on journal to sales_data_api;
grant truncate on journal_00, journal_01, journal_02, journal_03, journal_04, journal_05, journal_06, journal_07, journal_08, journal_09, journal_10, journal_11, journal_12, journal_13, journal_14, journal_15 to sales_data_api;
grant select, insert, update on journal_ends to sales_data_api;

alter table jobs add column actor json;
comment on column jobs.actor is 'Who started the job, as in journal.';
alter table imports add column actor json;
comment on column imports.actor is 'Who made the import, as in journal.';

-- Where the kept events of each customer begin, and the totals.
insert into journal_ends (customer_id, position, id, contacts, companies)
select
  c.id,
  coalesce(min(e.first_position) - 1, max(h.position), 0),
  case when count(e.customer_id) = 0 then max(h.last_id::text)::uuid else max(e.previous_id::text)::uuid end,
  coalesce(max(t.contacts), 0),
  coalesce(max(t.companies), 0)
from customers c
left join event_heads h on h.customer_id = c.id
left join (
  select distinct on (customer_id) customer_id, last_position - size + 1 as first_position, previous_id
  from events
  where last_position is not null
  order by customer_id, last_position
) e on e.customer_id = c.id
left join (
  select
    customer_id,
    sum(records) filter (where counted = 'contacts') as contacts,
    sum(records) filter (where counted = 'companies') as companies
  from counters
  group by customer_id
) t on t.customer_id = c.id
group by c.id;

insert into journal (
  customer_id, part, position, id, occurred_at, type, source, record_id, data, contacts, companies
)
select
  r.customer_id,
  (extract(epoch from r.occurred_at)::bigint / 691200) % 16,
  r.before_row + entry.number,
  (left(r.id::text, 33) || lpad(to_hex((('x' || right(r.id::text, 3))::bit(12)::integer & 3072) | (entry.number - 1)::integer), 3, '0'))::uuid,
  r.occurred_at,
  entry.value ->> 0,
  r.source,
  (entry.value -> 1 ->> 'id')::uuid,
  entry.value -> 1,
  n.contacts,
  n.companies
from (
  select
    v.customer_id, v.id, v.occurred_at, v.source, v.entries,
    coalesce(
      v.last_position,
      coalesce(h.position, 0)
        + sum(v.size) filter (where v.last_position is null) over (partition by v.customer_id order by v.number)
    ) - v.size as before_row
  from events v
  left join event_heads h on h.customer_id = v.customer_id
) r
join journal_ends n on n.customer_id = r.customer_id
cross join lateral json_array_elements(r.entries) with ordinality as entry (value, number);

drop table events;
drop table event_heads;
drop sequence event_numbers;
drop table counters;
