-- oldest release: 1.1.0
-- The file of a checked import stays as long as its records, so that its columns can be changed.

comment on table import_chunks is 'The file of an import, in pieces of 1 MiB. Removed when its records are stored, of a dry run together with them.';
comment on column imports.fingerprint is 'Hash of what the command line was asked to import, by which the same command finds its import if that has not ended; or a text that names the import whose left out records this one creates.';
