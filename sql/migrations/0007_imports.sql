-- oldest release: 1.0.0
-- Imports of contacts and companies from files. The file is stored here until the import ends, so every worker can read it.

create table imports (
  customer_id    uuid           not null,
  id             uuid           not null default uuidv7(),
  name           text           not null,
  object         text           not null,
  mode           text           not null,
  match          text,
  format         text           not null,
  mapping        jsonb,
  ignore_unknown boolean        not null,
  list_ids       uuid[]         not null,
  dry_run        boolean        not null,
  is_automatic   boolean        not null,
  status         text           not null default 'UPLOADING',
  fingerprint    bytea,
  upload         uuid,
  file_bytes     bigint,
  layout         jsonb,
  position       jsonb,
  counted        integer        not null default 0,
  total          integer,
  created        integer        not null default 0,
  updated        integer        not null default 0,
  unchanged      integer        not null default 0,
  failed         integer        not null default 0,
  error          text,
  failures       smallint       not null default 0,
  lease          uuid,
  leased_until   timestamptz(3),
  served_at      timestamptz(3),
  created_at     timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  started_at     timestamptz(3),
  finished_at    timestamptz(3),
  purged_at      timestamptz(3),
  constraint imports_pkey primary key (customer_id, id),
  constraint imports_object_known check (object in ('contacts', 'companies')),
  constraint imports_mode_known check (mode in ('create', 'update', 'upsert')),
  constraint imports_match_whole check ((match is null) = (mode = 'create')),
  constraint imports_format_known check (format in ('csv', 'ndjson')),
  constraint imports_status_known check (status in ('UPLOADING', 'UPLOADED', 'PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED')),
  constraint imports_file_before_work check (status in ('UPLOADING', 'CANCELLED') or file_bytes is not null),
  constraint imports_counts_not_negative check (least(counted, created, updated, unchanged, failed) >= 0),
  constraint imports_written_within_total check (created + updated + unchanged + failed <= coalesce(total, 0)),
  constraint imports_completed_whole check (status <> 'COMPLETED' or created + updated + unchanged + failed = total),
  constraint imports_end_with_time check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (finished_at is not null)),
  constraint imports_lease_whole check ((lease is null) = (leased_until is null)),
  constraint imports_lease_while_unfinished check (lease is null or finished_at is null)
);
create index imports_unfinished on imports (customer_id, served_at nulls first, id) where finished_at is null;
create index imports_ended on imports (finished_at) where finished_at is not null and purged_at is null;
create index imports_fingerprint on imports (customer_id, fingerprint) where fingerprint is not null;
comment on column imports.match is
  'The field by which a record of the file names the stored record; null for mode create.';
comment on column imports.mapping is 'Given fields of headers: {"header": "field" or null}.';
comment on column imports.list_ids is 'Lists to which each written contact is added by hand.';
comment on column imports.is_automatic is 'Whether the work starts when the file is complete.';
comment on column imports.fingerprint is
  'Hash of what the command line was asked to import, by which the same command finds its import. Null once it has reported the end.';
comment on column imports.upload is
  'The latest upload that has begun; its chunks are the file. An older upload can store nothing more.';
comment on column imports.layout is
  'The columns of a CSV file, as its header line and the mapping give them.';
comment on column imports.position is
  'Where reading continues: {"bytes": …, "line": …}; null: at the beginning. The file is read twice: to count its records and to find reasons to refuse it (until total is set), then to write them.';
comment on column imports.counted is 'Records counted so far by the first reading.';
comment on column imports.failures is 'As in jobs.';
comment on column imports.lease is 'As in jobs.';
comment on column imports.served_at is 'As in jobs.';
comment on column imports.purged_at is 'When the failed records of the ended import were removed.';

create table import_chunks (
  customer_id uuid    not null,
  import_id   uuid    not null,
  upload      uuid    not null,
  number      integer not null,
  data        bytea   storage external not null,
  constraint import_chunks_pkey primary key (customer_id, import_id, upload, number),
  constraint import_chunks_import_fkey foreign key (customer_id, import_id) references imports (customer_id, id) on delete cascade
);
comment on table import_chunks is
  'The file of an import, in pieces of 1 MiB. Removed when the import ends.';
comment on column import_chunks.data is
  'Not compressed by PostgreSQL: parts of a piece are read without unpacking all of it.';

create table import_errors (
  customer_id uuid   not null,
  import_id   uuid   not null,
  position    bigint not null,
  lines       text   not null,
  constraint import_errors_pkey primary key (customer_id, import_id, position),
  constraint import_errors_import_fkey foreign key (customer_id, import_id) references imports (customer_id, id) on delete cascade
);
comment on table import_errors is
  'The failed records of an import, as lines of the errors file: one row for each transaction that had any.';
comment on column import_errors.position is 'Where in the file these records start (bytes).';

grant select, insert, update, delete on imports, import_chunks, import_errors to sales_data_api;
