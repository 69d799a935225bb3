-- oldest release: 1.1.0
-- A check of a file shows what it would change, and how many of its records would be the same one.

alter table imports add column changes jsonb not null default '[]';
alter table imports add column repeated integer;
comment on column imports.changes is 'Of a dry run: what its first records would change of stored ones.';
comment on column imports.repeated is 'Of a dry run that has ended: how many match values several records have.';
alter table import_rows add column match_hash bigint;
comment on column import_rows.match_hash is 'Of a dry run: a hash of the value that names the stored record.';
