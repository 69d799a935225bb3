-- oldest release: 1.0.0
-- Rights of people in the catalog: who must not be in it, who was removed from it, and what operators did.

create table suppressions (
  kind        text           not null,
  digest      bytea          not null,
  is_erasure  boolean        not null,
  reason      text           not null,
  case_ref    text,
  received_at timestamptz(3) not null default clock_timestamp(),
  constraint suppressions_pkey primary key (kind, digest),
  constraint suppressions_kind_known check (kind in ('email', 'profnet_url', 'id')),
  constraint suppressions_digest_is_sha256 check (octet_length(digest) = 32)
);
comment on table suppressions is
  'Who must not be in the catalog: people with one of these identifiers. A person has several, and each can have its row.';
comment on column suppressions.digest is
  'The HMAC-SHA-256 of the identifier, in the form in which identifiers are compared, under the secret in catalog_state. So the table tells nobody who asked.';
comment on column suppressions.is_erasure is
  'Whoever has the identifier is deleted. False: the person is only kept out, in held_people.';

create table held_people (
  prospect_id uuid           not null,
  person      jsonb          not null,
  held_at     timestamptz(3) not null default clock_timestamp(),
  constraint held_people_pkey primary key (prospect_id)
);
comment on table held_people is
  'People who are suppressed and not erased, as the catalog had them. They are in no catalog until the suppression is lifted.';

create table privacy_log (
  id         uuid        not null default uuidv7(),
  action     text        not null,
  operator   text        not null,
  kind       text,
  digest     bytea,
  case_ref   text,
  reason     text,
  details    jsonb       not null default '{}',
  created_at timestamptz generated always as (uuid_extract_timestamp(id)) virtual,
  constraint privacy_log_pkey primary key (id),
  constraint privacy_log_kind_known check (kind in ('email', 'profnet_url', 'id'))
);
create index privacy_log_identifier on privacy_log (digest, kind, id) where digest is not null;
comment on table privacy_log is
  'What operators did about requests of people. Append-only: the service may not update or delete.';
comment on column privacy_log.digest is 'As in suppressions: proves what was done about an identifier, to those who know it.';

create table removals (
  customer_id uuid           not null,
  prospect_id uuid           not null,
  removed_at  timestamptz(3) not null default clock_timestamp(),
  constraint removals_pkey primary key (customer_id, prospect_id)
);
-- place: removals
create index removals_latest on removals (customer_id, removed_at, prospect_id);
comment on table removals is
  'People whom the customer had unlocked, and who asked to be erased. The unlocks stay.';

alter table contacts add column removal_requested_at timestamptz(3);
comment on column contacts.removal_requested_at is
  'When the person, whom the catalog had and the customer unlocked, was erased from the catalog. The contact is the customer''s own.';

alter table catalog_imports add column suppressed bigint not null default 0;
comment on column catalog_imports.suppressed is 'Records that were not imported, because the person is suppressed.';

grant select, insert, update, delete on suppressions, held_people to sales_data_api;
grant select, insert on privacy_log, removals to sales_data_api;
-- The result of an erased person becomes null. Statistics hold samples of values, and are taken anew then.
grant maintain on held_people to sales_data_api;
grant update, maintain on job_results to sales_data_api;
comment on table job_results is
  'The result of each item. A row is inserted by the transaction that charges for it, and never changed, except that the result of an erased person becomes null: its primary key forbids to charge for the same input twice, as the key of `unlocks` does for the same prospect.';
