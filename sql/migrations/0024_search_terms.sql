-- no-transaction
-- oldest release: 1.0.0
-- Hashes of a record's values and of the parts of its texts, made by the service (src/filters/terms.ts), and the indexes
-- that find records by them. Records that an older program writes have no terms, or terms of an older version: then
-- `folded` lacks the key `indexed`. A worker adds the terms of existing records in the background
-- (src/jobs/index-records.ts). After a failure each statement can be run again.
alter table contacts add column if not exists terms integer[];
alter table companies add column if not exists terms integer[];

-- The planner assumes fixed shares of the records for conditions on terms. The most common terms of all customers would
-- tell nothing about one customer.
alter table contacts alter column terms set statistics 0;
alter table companies alter column terms set statistics 0;
-- Terms are read by no query; compressing them costs more than it saves.
alter table contacts alter column terms set storage external;
alter table companies alter column terms set storage external;

-- Searches read the pending list of a GIN index from end to end, so it is kept short.
drop index concurrently if exists contacts_terms;
create index concurrently contacts_terms on contacts using gin (terms) with (gin_pending_list_limit = 1024);
drop index concurrently if exists companies_terms;
create index concurrently companies_terms on companies using gin (terms) with (gin_pending_list_limit = 1024);

drop index concurrently if exists contacts_without_terms;
create index concurrently contacts_without_terms on contacts (customer_id, id) where (folded ->> 'indexed') is null;
drop index concurrently if exists companies_without_terms;
create index concurrently companies_without_terms on companies (customer_id, id) where (folded ->> 'indexed') is null;

-- Only the service writes this field, not together with the terms.
drop index concurrently if exists contacts_verification_status;
create index concurrently contacts_verification_status on contacts (customer_id, (verification_status collate "C"), id);
drop index concurrently if exists companies_verification_status;
create index concurrently companies_verification_status on companies (customer_id, (verification_status collate "C"), id);
