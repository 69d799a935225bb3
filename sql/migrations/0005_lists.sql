-- Lists with rules, their members as rows, and exact counts.

alter table lists
  add column source        text  not null default 'MANUAL',
  add column rules         jsonb not null default '[]',
  -- Which change of the rules is not yet written to list_members; null once the members are what the rules say. Until
  -- then rows by rule are not believed and the rules are evaluated on read.
  add column fill_version  uuid,
  -- The last contact, in the order of ids, that the change has been written for.
  add column filled_to     uuid,
  add constraint lists_source_known check (source in ('MANUAL', 'IMPORT', 'PROSPECT')),
  add constraint lists_rules_are_array check (jsonb_typeof(rules) = 'array'),
  add constraint lists_progress_of_a_fill check (filled_to is null or fill_version is not null);

create index lists_filling on lists (customer_id) where fill_version is not null;

-- One row for each customer who ever had rules. The version is a new one with every change of any list's rules; a
-- process that holds the rules of this version in compiled form need not read them again.
create table rule_versions (
  customer_id uuid not null,
  version     uuid not null default uuidv7(),
  constraint rule_versions_pkey primary key (customer_id),
  constraint rule_versions_customer_fkey foreign key (customer_id) references customers (id)
);

-- Exact counts: of a list's members (`counted` is the list's id), of all contacts ('contacts') and all companies
-- ('companies'). The count is the sum over the shards; a backend writes to the shard that its process id picks, so that
-- writers do not queue for one row, and a shard alone may well be negative.
create table counters (
  customer_id uuid     not null,
  counted     text     not null collate "C",
  shard       smallint not null,
  records     bigint   not null,
  constraint counters_pkey primary key (customer_id, counted, shard)
) with (fillfactor = 50);

insert into counters (customer_id, counted, shard, records)
select customer_id, 'contacts', 0, count(*) from contacts group by customer_id
union all
select customer_id, 'companies', 0, count(*) from companies group by customer_id
union all
select customer_id, list_id::text, 0, count(*) from list_members group by customer_id, list_id;

grant select, insert, update, delete on rule_versions, counters to sales_data_api;
