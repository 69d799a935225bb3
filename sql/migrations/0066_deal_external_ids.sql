-- no-transaction
-- oldest release: 1.1.0
-- Products and opportunities have the caller's own id, as contacts have it, and an order by their last change.

alter table products add column if not exists external_id text collate "C";
alter table opportunities add column if not exists external_id text collate "C";
comment on column products.external_id is
  'The caller''s own id, compared byte by byte. Unique among the customer''s products that are not deleted.';
comment on column opportunities.external_id is
  'The caller''s own id, compared byte by byte. Unique among the customer''s opportunities.';

-- One that an interrupted run has left is not valid.
drop index concurrently if exists products_external_id_key;
drop index concurrently if exists opportunities_external_id_key;
create unique index concurrently products_external_id_key on products (customer_id, external_id)
  where external_id is not null and deleted_at is null;
create unique index concurrently opportunities_external_id_key on opportunities (customer_id, external_id)
  where external_id is not null;
create index concurrently if not exists products_updated_at on products (customer_id, updated_at, id);
create index concurrently if not exists opportunities_updated_at on opportunities (customer_id, updated_at, id);
