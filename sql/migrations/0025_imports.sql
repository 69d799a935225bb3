-- oldest release: 1.0.0
-- Imports of contacts and companies from files. The file is stored here until the import ends, so every worker can read it.

create table imports (
  customer_id    uuid           not null,
  id             uuid           not null default uuidv7(),
  name           text           not null,
  object         text           not null,
  mode           text           not null,
  -- The field by which a record of the file names the stored record; null for mode create.
  match          text,
  format         text           not null,
  -- Given fields of headers, as JSON: {"header": "field" or null}.
  mapping        jsonb,
  ignore_unknown boolean        not null,
  -- Lists that each written contact is added to by hand.
  list_ids       uuid[]         not null,
  dry_run        boolean        not null,
  -- Whether the work starts when the file is complete.
  is_automatic   boolean        not null,
  status         text           not null default 'UPLOADING',
  -- Hash of what the command line was asked to import; null once it has reported the end. The same command finds its import by it.
  fingerprint    bytea,
  -- The latest upload that has begun; its chunks are the file. An older upload can store nothing more.
  upload         uuid,
  file_bytes     bigint,
  -- The columns of a CSV file, as its header line and the mapping give them.
  layout         jsonb,
  -- Where reading goes on: {"bytes": …, "line": …}. Null: at the beginning. The file is read twice: to count its records and to find
  -- reasons to refuse it (until total is set), then to write them.
  position       jsonb,
  -- Records counted so far by the first reading.
  counted        integer        not null default 0,
  total          integer,
  created        integer        not null default 0,
  updated        integer        not null default 0,
  unchanged      integer        not null default 0,
  failed         integer        not null default 0,
  error          text,
  -- As in jobs: unexpected errors in a row, who works at it, and since when it waits for a turn.
  failures       smallint       not null default 0,
  lease          uuid,
  leased_until   timestamptz(3),
  served_at      timestamptz(3),
  created_at     timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  started_at     timestamptz(3),
  finished_at    timestamptz(3),
  -- When the failed records of an ended import were removed.
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

-- The file of an import, in pieces of 1 MiB (src/queries/imports/import-files.ts). Removed when the import ends.
create table import_chunks (
  customer_id uuid    not null,
  import_id   uuid    not null,
  upload      uuid    not null,
  number      integer not null,
  data        bytea   not null,
  constraint import_chunks_pkey primary key (customer_id, import_id, upload, number),
  constraint import_chunks_import_fkey foreign key (customer_id, import_id) references imports (customer_id, id) on delete cascade
);
-- Not compressed: parts of a piece are read without unpacking all of it.
alter table import_chunks alter column data set storage external;

-- The failed records of an import, as lines of the errors file: one row for each transaction that had any.
create table import_errors (
  customer_id uuid   not null,
  import_id   uuid   not null,
  -- Where in the file these records start (bytes).
  position    bigint not null,
  lines       text   not null,
  constraint import_errors_pkey primary key (customer_id, import_id, position),
  constraint import_errors_import_fkey foreign key (customer_id, import_id) references imports (customer_id, id) on delete cascade
);

grant select, insert, update, delete on imports, import_chunks, import_errors to sales_data_api;
