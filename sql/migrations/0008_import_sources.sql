-- oldest release: 1.0.0
-- Imports detect the format and the encoding of their files, and read Excel files.

alter table imports drop constraint imports_format_known;
alter table imports add constraint imports_format_known check (format in ('auto', 'csv', 'ndjson', 'xlsx'));
alter table imports add column encoding text not null default 'auto';
alter table imports add column sheet text;
alter table imports add column found_encoding text;
alter table imports add column has_mark boolean not null default false;
alter table imports add column is_converted boolean not null default false;
comment on column imports.format is
  'auto: as the file shows; the end of the upload replaces it, unless the file is empty.';
comment on column imports.encoding is 'As given: auto, or the name of an encoding (WHATWG Encoding standard).';
comment on column imports.sheet is 'Name of the sheet of an XLSX file; null: the first.';
comment on column imports.found_encoding is
  'What the bytes of the file show; null for XLSX, and until the file is complete. Used if encoding is auto.';
comment on column imports.has_mark is 'Whether the file begins with a byte order mark.';
comment on column imports.is_converted is
  'A worker has replaced the file by what is read from it: UTF-8 of other text, one line of JSON for each row of a sheet.';
