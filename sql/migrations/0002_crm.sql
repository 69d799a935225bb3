-- oldest release: 1.0.0
-- Pipelines, companies and contacts.
--
-- Companies and contacts have no foreign key to customers: their customer_id comes from the caller's key, whose row has
-- one, and customers are never deleted. The check would lock the same row for every insert of a customer.
--
-- Large tables are analysed after 1,000 changed rows. By default that happens after a tenth of the table has changed, and
-- the planner would expect one row for a customer who began since: it would read tables from end to end.

create table pipelines (
  customer_id uuid           not null,
  id          uuid           not null default uuidv7(),
  name        text           not null,
  description text           not null default '',
  currency    text           not null default 'USD',
  active      boolean        not null default true,
  visibility  text           not null default 'PUBLIC',
  created_at  timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint pipelines_pkey primary key (customer_id, id),
  constraint pipelines_customer_fkey foreign key (customer_id) references customers (id),
  constraint pipelines_visibility_known check (visibility in ('PUBLIC', 'PRIVATE'))
);

create table stages (
  customer_id            uuid           not null,
  id                     uuid           not null default uuidv7(),
  pipeline_id            uuid           not null,
  name                   text           not null,
  position               integer        not null,
  probability_percentage integer        not null,
  status                 text           not null default 'OPEN',
  created_at             timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at             timestamptz(3) not null default clock_timestamp(),
  constraint stages_pkey primary key (customer_id, id),
  constraint stages_position_key unique (customer_id, pipeline_id, position),
  constraint stages_pipeline_fkey foreign key (customer_id, pipeline_id) references pipelines (customer_id, id),
  constraint stages_probability_is_percentage check (probability_percentage between 0 and 100),
  constraint stages_status_known check (status in ('OPEN', 'WON', 'LOST'))
);

create table companies (
  customer_id             uuid           not null,
  id                      uuid           not null default uuidv7(),
  external_id             text           collate "C",
  type                    text           not null default '',
  company_name            text           not null,
  size                    text           not null default '',
  industry                text           not null default '',
  profnet_url             text,
  social1_url             text,
  social2_url             text,
  location_locality       text,
  location_metro          text,
  location_region         text,
  location_street_address text,
  location_address_line_2 text,
  location_postal_code    text,
  location_country        text           not null default '',
  verification_status     text           not null default 'unverified',
  last_verified           timestamptz(3),
  score                   integer        not null default 0,
  custom_fields           jsonb          not null default '{}',
  folded                  jsonb          not null,
  terms                   integer[]      storage external,
  deleted_at              timestamptz(3),
  created_at              timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at              timestamptz(3) not null default clock_timestamp(),
  constraint companies_pkey primary key (customer_id, id),
  -- The order by an index of folded values does not expect nulls.
  constraint companies_folded_is_sortable check (folded ? 'company_name'),
  constraint companies_score_is_percentage check (score between 0 and 100),
  constraint companies_verification_status_known check (verification_status in
    ('unverified', 'verified', 'invalid', 'accept_all', 'disposable', 'do_not_mail', 'unknown'))
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
-- The planner assumes fixed shares of the records for conditions on terms. The most common terms of all customers would
-- tell nothing about one customer.
alter table companies alter column terms set statistics 0;
comment on column companies.external_id is
  'The caller''s own id, compared byte by byte. Unique among the customer''s companies that are not deleted.';
comment on column companies.folded is
  'The text fields without regard to case and accents, as the service computes them. Written together with the fields, and only ever compared as bytes. Has the key `indexed` if the terms are of the current version.';
comment on column companies.terms is
  'Hashes of the values and of the parts of the texts, by which indexes find the record. A worker computes missing ones. Not compressed: no query reads them.';
comment on column companies.deleted_at is
  'The row of a deleted company stays until no contact and no opportunity refers to it. Nobody is shown it.';

create table contacts (
  customer_id          uuid           not null,
  id                   uuid           not null default uuidv7(),
  external_id          text           collate "C",
  first_name           text           not null,
  middle_name          text,
  last_name            text           not null,
  gender               text,
  birth_year           integer,
  profnet_url          text,
  social1_url          text,
  social2_url          text,
  work_email           text           not null,
  personal_email       text,
  other_emails         text[],
  industry             text           not null default '',
  job_title            text           not null default '',
  location_locality    text           not null default '',
  location_country     text           not null default '',
  location_region      text           not null default '',
  location_postal_code text,
  phone_numbers        jsonb          not null default '[]',
  mobile_phone         text,
  company_id           uuid,
  assigned_to          uuid,
  prospect_id          uuid,
  score                integer        not null default 0,
  verification_status  text           not null default 'unverified',
  last_verified        timestamptz(3),
  crm_synced_at        timestamptz(3),
  custom_fields        jsonb          not null default '{}',
  folded               jsonb          not null,
  terms                integer[]      storage external,
  created_at           timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at           timestamptz(3) not null default clock_timestamp(),
  constraint contacts_pkey primary key (customer_id, id),
  constraint contacts_company_fkey foreign key (customer_id, company_id) references companies (customer_id, id),
  constraint contacts_assignee_fkey foreign key (customer_id, assigned_to) references users (customer_id, id),
  constraint contacts_folded_is_sortable check (folded ?& array['last_name', 'work_email']),
  constraint contacts_score_is_percentage check (score between 0 and 100),
  constraint contacts_verification_status_known check (verification_status in
    ('unverified', 'verified', 'invalid', 'accept_all', 'disposable', 'do_not_mail', 'unknown'))
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
alter table contacts alter column terms set statistics 0;
comment on column contacts.external_id is
  'The caller''s own id, compared byte by byte. Unique among the customer''s contacts.';
comment on column contacts.prospect_id is
  'The prospect that the contact came from, or was found to be. No foreign key, as in unlocks.';
comment on column contacts.folded is 'As in companies.';
comment on column contacts.terms is 'As in companies.';

-- What records can be sorted by at the same cost at any size. An index on (customer_id, value, id) serves both directions
-- although ids always descend, and equality with the value too. Each costs an insert
-- about 5 µs; without them a contact takes about 17 µs (1,000,000 contacts, in bulk), so there are no others.
create index companies_score on companies (customer_id, score, id);
create index companies_updated_at on companies (customer_id, updated_at, id);
create index companies_verification_status on companies (customer_id, (verification_status collate "C"), id);
create index contacts_last_name on contacts (customer_id, ((folded ->> 'last_name') collate "C"), id);
create index contacts_score on contacts (customer_id, score, id);
create index contacts_updated_at on contacts (customer_id, updated_at, id);
create index contacts_verification_status on contacts (customer_id, (verification_status collate "C"), id);
create index contacts_work_email on contacts (customer_id, ((folded ->> 'work_email') collate "C"), id);

-- The oldest company of a name, for contacts that name their company.
create index companies_name on companies (customer_id, ((folded ->> 'company_name') collate "C"), id);
create unique index companies_external_id_key on companies (customer_id, external_id)
  where external_id is not null and deleted_at is null;
create unique index contacts_external_id_key on contacts (customer_id, external_id) where external_id is not null;
-- The contacts of a company in the order of their ids: a batch begins where the one before ended.
create index contacts_of_company on contacts (customer_id, company_id, id) where company_id is not null;
create index contacts_prospect on contacts (customer_id, prospect_id) where prospect_id is not null;

-- Searches read the pending list of a GIN index from end to end, so it is kept short.
create index companies_terms on companies using gin (terms) with (gin_pending_list_limit = 1024);
create index contacts_terms on contacts using gin (terms) with (gin_pending_list_limit = 1024);
-- Records that wait for their terms.
create index companies_without_terms on companies (customer_id, id) where (folded ->> 'indexed') is null;
create index contacts_without_terms on contacts (customer_id, id) where (folded ->> 'indexed') is null;

-- How frequent the values are that records are filtered by. For an expression without statistics the planner assumes that
-- every value has 0.5 % of all records. Then it read and sorted 6,500 of 1,000,000 contacts (250 ms) instead of walking
-- down the primary key to the first 25 (3 ms), or walked through all of them for a value that nobody has. Much cheaper
-- than an index: no write pays, `analyze` takes a fifth longer. For texts that repeat and have no index.
create statistics companies_industry on ((folded ->> 'industry') collate "C") from companies;
create statistics companies_location_country on ((folded ->> 'location_country') collate "C") from companies;
create statistics companies_location_locality on ((folded ->> 'location_locality') collate "C") from companies;
create statistics companies_location_postal_code on ((folded ->> 'location_postal_code') collate "C") from companies;
create statistics companies_location_region on ((folded ->> 'location_region') collate "C") from companies;
create statistics companies_size on ((folded ->> 'size') collate "C") from companies;
create statistics companies_type on ((folded ->> 'type') collate "C") from companies;
create statistics contacts_first_name on ((folded ->> 'first_name') collate "C") from contacts;
create statistics contacts_gender on ((folded ->> 'gender') collate "C") from contacts;
create statistics contacts_industry on ((folded ->> 'industry') collate "C") from contacts;
create statistics contacts_job_title on ((folded ->> 'job_title') collate "C") from contacts;
create statistics contacts_location_country on ((folded ->> 'location_country') collate "C") from contacts;
create statistics contacts_location_locality on ((folded ->> 'location_locality') collate "C") from contacts;
create statistics contacts_location_postal_code on ((folded ->> 'location_postal_code') collate "C") from contacts;
create statistics contacts_location_region on ((folded ->> 'location_region') collate "C") from contacts;

create table company_settlements (
  customer_id uuid    not null,
  company_id  uuid    not null,
  version     uuid    not null default uuidv7(),
  is_deletion boolean not null,
  settled_to  uuid,
  constraint company_settlements_pkey primary key (customer_id, company_id),
  constraint company_settlements_company_fkey foreign key (customer_id, company_id) references companies (customer_id, id)
);
comment on table company_settlements is
  'Large companies are changed and deleted at once, and their contacts follow in small transactions of a worker. One row for each company whose contacts have yet to follow. Until the row is gone, list_members.by_rule is not relied on for these contacts: their rules are evaluated on read.';
comment on column company_settlements.version is 'A new one with every change of the company.';
comment on column company_settlements.is_deletion is
  'Whether the company was deleted: its contacts and opportunities have to be detached.';
comment on column company_settlements.settled_to is
  'The last contact, in the order of ids, that has followed this version.';

create table counters (
  customer_id uuid     not null,
  counted     text     not null collate "C",
  shard       smallint not null,
  records     bigint   not null,
  constraint counters_pkey primary key (customer_id, counted, shard)
) with (fillfactor = 50);
comment on table counters is
  'Exact counts. A count is the sum over its shards. A backend writes to the shard that its process id selects, so writers do not queue for one row; one shard may be negative.';
comment on column counters.counted is
  '`contacts` or `companies` for all of the customer''s records, or the id of a list for its members.';

grant select, insert, update, delete on pipelines, stages, companies, contacts, company_settlements, counters to sales_data_api;
-- The worker analyses what an import has changed.
grant maintain on companies, contacts to sales_data_api;
