-- no-transaction
-- Large companies are changed and deleted at once, and their contacts follow in small transactions of a worker
-- (src/queries/memberships/company-settlements.ts). Every statement here can be repeated.

-- When the company was deleted. The row stays until no contact and no opportunity refers to it; nobody is shown it.
alter table companies add column if not exists deleted_at timestamptz(3);

-- One row for each company whose contacts have yet to follow a change or a deletion. Until it is gone, rows by rule in
-- list_members are not believed for these contacts: their rules are evaluated on read.
create table if not exists company_settlements (
  customer_id uuid    not null,
  company_id  uuid    not null,
  -- A new one with every change of the company.
  version     uuid    not null default uuidv7(),
  -- Whether the company was deleted: its contacts and opportunities have to be detached.
  is_deletion boolean not null,
  -- The last contact, in the order of ids, that has followed this version.
  settled_to  uuid,
  constraint company_settlements_pkey primary key (customer_id, company_id),
  constraint company_settlements_company_fkey foreign key (customer_id, company_id) references companies (customer_id, id)
);
grant select, insert, update, delete on company_settlements to sales_data_api;

-- The contacts and opportunities of a company in the order of their ids: a batch begins where the one before ended.
drop index concurrently if exists contacts_of_company;
create index concurrently contacts_of_company on contacts (customer_id, company_id, id) where company_id is not null;
drop index concurrently if exists contacts_company;
drop index concurrently if exists opportunities_of_company;
create index concurrently opportunities_of_company on opportunities (customer_id, company_id, id) where company_id is not null;
drop index concurrently if exists opportunities_company;

-- Of a column without statistics the planner takes 0.5 % for null; here it is nearly all.
analyze companies (deleted_at);
-- A table that is empty now is not planned for as if it stayed so (see 0013).
select pg_clear_relation_stats('public', 'companies')
from pg_class
where oid = 'public.companies'::regclass and reltuples = 0;
