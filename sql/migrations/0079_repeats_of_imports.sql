-- oldest release: 1.1.0
-- The pages count repeated records alike in the list, the check and the result of an import, and tie copies to their import.

alter table imports add column repeats jsonb not null default '{}';
comment on column imports.repeats is 'How many records come after another one of the file that creates their record: {"created": …} of a dry run; else {"updated": …, "unchanged": …}. These columns count them, too.';
comment on column imports.fingerprint is 'Hash of what the command line was asked to import, by which the same command finds its import if that has not ended; or a text that names the import from which a page took the records.';
