-- oldest release: 1.1.0
-- A key that may not make notes can send the file of an import that somebody else has begun, or start it.

alter table imports add column takes_notes boolean not null default true;
comment on column imports.takes_notes is 'False: someone who may not make notes has worked on the import, so a column of notes is left out.';
