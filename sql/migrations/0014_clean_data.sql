-- oldest release: 1.0.0
-- Duplicates that need several values are counted by workers. Merged records are remembered.

create table duplicate_counts (
  customer_id uuid           not null,
  kind        text           not null,
  asked_at    timestamptz(3) not null default clock_timestamp(),
  counted_at  timestamptz(3),
  constraint duplicate_counts_pkey primary key (customer_id, kind),
  constraint duplicate_counts_kind_known check (kind in ('name_and_company', 'external_name'))
);
-- place: duplicate_counts
comment on table duplicate_counts is
  'Kinds of duplicates that a customer has asked for, and that workers therefore count again and again.';
comment on column duplicate_counts.asked_at is
  'When the customer asked last, at most a minute before. A day later the count is removed.';
comment on column duplicate_counts.counted_at is
  'Beginning of the last count, which saw everything that was written before; null: never counted.';

create table duplicate_groups (
  customer_id uuid    not null,
  kind        text    not null,
  number      integer not null,
  value       text    collate "C" not null,
  records     integer not null,
  ids         uuid[]  not null,
  constraint duplicate_groups_pkey primary key (customer_id, kind, number),
  constraint duplicate_groups_of_several check (records > 1)
);
-- place: duplicate_groups
comment on table duplicate_groups is
  'The last count: one row for each value that several records have. One transaction replaces all rows of a customer and kind.';
comment on column duplicate_groups.ids is 'Up to 100, the oldest record first.';

create table merged_records (
  customer_id uuid           not null,
  id          uuid           not null,
  noun        text           not null,
  merged_into uuid           not null,
  external_id text           collate "C",
  prospect_id uuid,
  merged_at   timestamptz(3) not null default clock_timestamp(),
  constraint merged_records_pkey primary key (customer_id, id),
  constraint merged_records_noun_known check (noun in ('contact', 'company'))
);
-- place: merged_records
create index merged_records_successor on merged_records (customer_id, merged_into);
create index merged_records_external_id on merged_records (customer_id, noun, external_id) where external_id is not null;
create index merged_records_prospect on merged_records (customer_id, prospect_id) where prospect_id is not null;
create index merged_records_age on merged_records (merged_at);
comment on table merged_records is
  'Records that were merged into another one and deleted, for 400 days.';
comment on column merged_records.merged_into is
  'The record that replaces it. If that is merged into a third one, this column names the third.';
comment on column merged_records.external_id is
  'The external id that the record had. Batches and imports find the other record by it, unless a record has it.';
comment on column merged_records.prospect_id is
  'The prospect from which the record came. A later unlock of the prospect updates the other record.';

grant select, insert, update, delete on duplicate_counts, duplicate_groups, merged_records to sales_data_api;
