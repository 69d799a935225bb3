-- oldest release: 1.0.0

alter table imports add column has_header boolean not null default true;
comment on column imports.has_header is 'False: the first line of the file is a record.';
comment on column imports.fingerprint is
  'Hash of what the command line was asked to import, by which the same command finds its import if that has not ended.';
