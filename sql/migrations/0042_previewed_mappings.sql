-- oldest release: 1.0.0
-- An import uses the remembered mapping that its preview showed, whatever other imports remember meanwhile.

alter table imports add column remembered jsonb;
comment on column imports.remembered is
  'What the latest preview has found remembered for the headers of the file: {"headers": hash, "mapping": mapping or null}; null: not previewed with guess.';
