-- oldest release: 1.1.0
-- An interrupted import of people continues at its line.

alter table catalog_imports drop column position;
comment on table catalog_imports is 'Imports that run or were interrupted. Every record that starts before `line` is in the catalog.';
