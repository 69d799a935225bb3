-- The CRM records that contacts need. `folded` holds the text fields in the one case- and accent-insensitive form that
-- the service computes (src/fold.ts); it is written together with the fields and only ever compared as bytes.
-- Companies and contacts carry no foreign key to customers: their customer_id comes from the caller's key, whose row has
-- one, customers are never deleted, and the check would make every insert of a customer share-lock the same row.

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
  created_at              timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at              timestamptz(3) not null default clock_timestamp(),
  constraint companies_pkey primary key (customer_id, id),
  constraint companies_score_is_percentage check (score between 0 and 100),
  constraint companies_verification_status_known check (verification_status in
    ('unverified', 'verified', 'invalid', 'accept_all', 'disposable', 'do_not_mail', 'unknown'))
);
-- The oldest company of a name, for contacts that name their company.
create index companies_name on companies (customer_id, ((folded ->> 'company_name') collate "C"), id);

create table contacts (
  customer_id          uuid           not null,
  id                   uuid           not null default uuidv7(),
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
  score                integer        not null default 0,
  verification_status  text           not null default 'unverified',
  last_verified        timestamptz(3),
  crm_synced_at        timestamptz(3),
  custom_fields        jsonb          not null default '{}',
  folded               jsonb          not null,
  created_at           timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at           timestamptz(3) not null default clock_timestamp(),
  constraint contacts_pkey primary key (customer_id, id),
  constraint contacts_company_fkey foreign key (customer_id, company_id) references companies (customer_id, id),
  constraint contacts_assignee_fkey foreign key (customer_id, assigned_to) references users (customer_id, id),
  constraint contacts_score_is_percentage check (score between 0 and 100),
  constraint contacts_verification_status_known check (verification_status in
    ('unverified', 'verified', 'invalid', 'accept_all', 'disposable', 'do_not_mail', 'unknown'))
);
-- A company's rename and deletion have to find its contacts.
create index contacts_company on contacts (customer_id, company_id) where company_id is not null;

create table lists (
  customer_id uuid           not null,
  id          uuid           not null default uuidv7(),
  name        text           not null,
  description text           not null default '',
  owner_id    uuid           not null,
  created_at  timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint lists_pkey primary key (customer_id, id),
  constraint lists_owner_fkey foreign key (customer_id, owner_id) references users (customer_id, id)
);

create table list_members (
  customer_id uuid    not null,
  list_id     uuid    not null,
  contact_id  uuid    not null,
  by_hand     boolean not null,
  by_rule     boolean not null default false,
  constraint list_members_pkey primary key (customer_id, list_id, contact_id),
  constraint list_members_list_fkey foreign key (customer_id, list_id) references lists (customer_id, id),
  constraint list_members_contact_fkey foreign key (customer_id, contact_id) references contacts (customer_id, id),
  constraint list_members_for_a_reason check (by_hand or by_rule)
);
create index list_members_contact on list_members (customer_id, contact_id);

grant select, insert, update, delete on pipelines, stages, companies, contacts, lists, list_members to sales_data_api;
