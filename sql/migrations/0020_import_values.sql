-- oldest release: 1.0.0
-- Imports guess the fields of columns, remember mappings, and write records without values that cannot be read.

alter table imports add column guess boolean not null default false;
alter table imports add column invalid_values text;
alter table imports add constraint imports_invalid_values_known check (invalid_values in ('skip', 'fail'));
alter table imports add column warnings integer not null default 0;
alter table imports add constraint imports_warnings_of_written check (warnings between 0 and created + updated + unchanged);
alter table imports add column file_kept_until timestamptz(3);
create index imports_kept_files on imports (file_kept_until) where file_kept_until is not null;
comment on column imports.mapping is
  'Given fields of headers: {"header": "field", {"field": …, "type": …} or null}.';
comment on column imports.guess is 'Whether the fields of columns are guessed whose header names none.';
comment on column imports.invalid_values is
  'skip: a value that cannot be read is left out, with a warning; fail: its record fails; null: as the format has it.';
comment on column imports.warnings is 'Records that were written without a value that cannot be read.';
comment on column imports.file_kept_until is
  'Until then the file of a dry run that has ended is kept, so that it can be run for real. Null: no file is kept.';
comment on table import_errors is
  'The records of an import that failed or have warnings, as lines of the errors file: one row for each transaction that had any.';

create table import_mappings (
  customer_id uuid           not null,
  object      text           not null,
  headers     bytea          not null,
  mapping     jsonb          not null,
  used_at     timestamptz(3) not null,
  constraint import_mappings_pkey primary key (customer_id, object, headers),
  constraint import_mappings_object_known check (object in ('contacts', 'companies'))
);
-- place: import_mappings
comment on table import_mappings is
  'The mapping that the last import of a file with these headers has used. The newest 100 of a customer are kept.';
comment on column import_mappings.headers is 'Hash of the set of headers.';
grant select, insert, update, delete on import_mappings to sales_data_api;
