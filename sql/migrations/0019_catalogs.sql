-- The catalogs that imports have written: the one in this database, and those in search clusters. A search cluster can lose
-- what it holds; this table says that it held something, and which index it was.
create table catalogs (
  -- `postgres`, or the alias under which a cluster's index of people is searched.
  name        text           not null,
  -- What imports write to: the uuid of the index, or the file of the table `prospects`. Another incarnation holds other people.
  incarnation text           not null,
  -- Searches see this incarnation. One that replaces a lost catalog is searched from the end of its first import.
  is_searched boolean        not null,
  -- End of the last finished import; null until there is one.
  imported_at timestamptz(3),
  constraint catalogs_pkey primary key (name)
);

-- What was imported before this table existed. Where this database holds no people a cluster does, and the name of its
-- catalog was not kept: '' stands for it until the next import.
insert into catalogs (name, incarnation, is_searched, imported_at)
select case when exists (select from prospects) then 'postgres' else '' end, '', true, imported_at
from catalog_state
where imported_at is not null;

-- An interrupted import goes on in the incarnation that it began in, and in no other.
alter table catalog_imports add column incarnation text not null default '';

grant select, insert, update, delete on catalogs to sales_data_api;
