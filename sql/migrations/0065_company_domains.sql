-- no-transaction
-- oldest release: 1.1.0
-- Companies are found by their domain.

alter table companies add column if not exists domain text collate "C";
comment on column companies.domain is 'Host name in lower case and in Unicode, as src/text/domains.ts makes it. Several companies can have the same.';
create index concurrently if not exists companies_domain on companies (customer_id, domain, id)
  where domain is not null and deleted_at is null;
