-- oldest release: 1.1.0
-- A page imports records of an import that lack the match field, once.

comment on column imports.fingerprint is 'Hash of what the command line was asked to import, by which the same command finds its import if that has not ended; or of the import from which a page took the records.';
