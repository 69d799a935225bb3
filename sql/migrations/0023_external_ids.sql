-- no-transaction
-- oldest release: 1.0.0
-- The caller's own id of a record, compared byte by byte. It is unique among the customer's contacts, and among companies.
-- The row of a deleted company can stay for a while (0014); its external_id is free at once. Programs that do not know the column leave it null. After a failure each statement can be run again.
alter table contacts add column if not exists external_id text collate "C";
alter table companies add column if not exists external_id text collate "C";

drop index concurrently if exists contacts_external_id_key;
create unique index concurrently contacts_external_id_key on contacts (customer_id, external_id)
  where external_id is not null;
drop index concurrently if exists companies_external_id_key;
create unique index concurrently companies_external_id_key on companies (customer_id, external_id)
  where external_id is not null and deleted_at is null;
