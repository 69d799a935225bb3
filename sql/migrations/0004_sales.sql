-- oldest release: 1.0.0
-- Products and opportunities: what is sold, and to whom.

create table products (
  customer_id uuid           not null,
  id          uuid           not null default uuidv7(),
  name        text           not null,
  price       numeric(13,4)  not null,
  currency    text           not null,
  unit        text           not null,
  active      boolean        not null default true,
  deleted_at  timestamptz(3),
  created_at  timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint products_pkey primary key (customer_id, id),
  constraint products_price_in_range check (price >= 0 and price < 1000000000)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
comment on column products.deleted_at is
  'Set if a product is deleted while opportunities use it: their lines still show its name. Other products are deleted at once.';

create table opportunities (
  customer_id            uuid           not null,
  id                     uuid           not null default uuidv7(),
  name                   text           not null,
  description            text           not null default '',
  price                  numeric        not null default 0,
  priority               text           not null,
  stage_id               uuid           not null,
  company_id             uuid,
  user_id_assigned       uuid           not null,
  source_id              uuid,
  estimated_closing_date timestamptz(3) not null,
  close_date             timestamptz(3) not null,
  created_at             timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at             timestamptz(3) not null default clock_timestamp(),
  constraint opportunities_pkey primary key (customer_id, id),
  constraint opportunities_stage_fkey foreign key (customer_id, stage_id) references stages (customer_id, id),
  constraint opportunities_company_fkey foreign key (customer_id, company_id) references companies (customer_id, id),
  constraint opportunities_assignee_fkey foreign key (customer_id, user_id_assigned) references users (customer_id, id),
  -- The spelling HIGHT is the contract's.
  constraint opportunities_priority_known check (priority in ('URGENT', 'HIGHT', 'MEDIUM', 'LOW', 'NONE')),
  constraint opportunities_price_in_range check (price >= 0 and price < 100000000000)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
-- How many opportunities stand in a stage.
create index opportunities_stage on opportunities (customer_id, stage_id);
-- The opportunities of a company in the order of their ids: a batch begins where the one before ended.
create index opportunities_of_company on opportunities (customer_id, company_id, id) where company_id is not null;
comment on column opportunities.price is
  'The sum of the lines, written by every statement that writes lines. The type has no bound of its own, so opportunities_price_in_range refuses a sum that is too large.';

create table opportunity_contacts (
  customer_id    uuid    not null,
  opportunity_id uuid    not null,
  contact_id     uuid    not null,
  position       integer not null,
  constraint opportunity_contacts_pkey primary key (customer_id, opportunity_id, contact_id),
  constraint opportunity_contacts_opportunity_fkey foreign key (customer_id, opportunity_id)
    references opportunities (customer_id, id)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
create index opportunity_contacts_contact on opportunity_contacts (customer_id, contact_id);
comment on table opportunity_contacts is
  'No foreign key to contacts: rows can name a deleted contact until a worker has removed them (see contact_removals).';

create table contact_removals (
  customer_id uuid not null,
  contact_id  uuid not null,
  constraint contact_removals_pkey primary key (customer_id, contact_id)
);
comment on table contact_removals is
  'One row for each deleted contact that rows of opportunity_contacts still name. No read shows these rows. A contact is always deleted at once, with all that it says about a person; a worker removes it from its opportunities in small transactions.';

create table opportunity_lines (
  customer_id    uuid          not null,
  opportunity_id uuid          not null,
  product_id     uuid          not null,
  pipeline_id    uuid          not null,
  position       integer       not null,
  price          numeric(13,4) not null,
  quantity       integer       not null,
  constraint opportunity_lines_pkey primary key (customer_id, opportunity_id, product_id),
  constraint opportunity_lines_opportunity_fkey foreign key (customer_id, opportunity_id)
    references opportunities (customer_id, id),
  constraint opportunity_lines_product_fkey foreign key (customer_id, product_id)
    references products (customer_id, id),
  constraint opportunity_lines_pipeline_fkey foreign key (customer_id, pipeline_id)
    references pipelines (customer_id, id),
  constraint opportunity_lines_price_in_range check (price >= 0 and price < 1000000000),
  constraint opportunity_lines_quantity_in_range check (quantity between 1 and 1000000)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
-- How many opportunities in how many pipelines use a product, and whether any does.
create index opportunity_lines_product on opportunity_lines (customer_id, product_id, pipeline_id);
comment on column opportunity_lines.pipeline_id is
  'The pipeline of the opportunity''s stage, repeated so that opportunity_lines_product alone can count in how many pipelines a product is used.';

grant select, insert, update, delete
  on products, opportunities, opportunity_contacts, contact_removals, opportunity_lines to sales_data_api;
