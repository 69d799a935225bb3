-- oldest release: 1.0.0
-- The prospect catalog: people that every customer can search, and who has unlocked whom. Without a search cluster the
-- people are stored here.

create table prospects (
  id                   uuid           not null,
  person               jsonb          not null,
  first_name           text           not null collate "C",
  last_name            text           not null collate "C",
  job_title            text           not null collate "C",
  job_company_name     text           not null collate "C",
  job_company_industry text           not null collate "C",
  location_locality    text           not null collate "C",
  location_region      text           not null collate "C",
  location_country     text           not null collate "C",
  location_postal_code text           collate "C",
  verification_status  text           not null collate "C",
  score                smallint       not null,
  date_verified        timestamptz(3) not null,
  has_email            boolean        not null,
  has_phone            boolean        not null,
  tokens               text[]         not null collate "C",
  constraint prospects_pkey primary key (id),
  constraint prospects_score_is_percentage check (score between 0 and 100)
);
-- The default order, with the score negated so that both keys ascend and a cursor's position is one row comparison.
create index prospects_best_first on prospects ((-score), id);
create index prospects_worst_first on prospects (score, id);
create index prospects_last_name on prospects (last_name, id);
create index prospects_last_name_descending on prospects (last_name desc, id);
-- Every text filter in one index: a token names its member.
create index prospects_tokens on prospects using gin (tokens);
-- How frequent a token is decides between this index and the order's: know more of them than the usual 1,000.
alter table prospects alter column tokens set statistics 1000;
comment on table prospects is
  'Columns named like members of `person` have the folded form in which the service compares.';

create table prospect_values (
  generation bigint   not null,
  member     text     not null collate "C",
  folded     text     not null collate "C",
  value      text     not null collate "C",
  people     bigint   not null,
  words      tsvector not null,
  constraint prospect_values_pkey primary key (generation, member, folded)
);
create index prospect_values_frequent on prospect_values (generation, member, people desc, value);
create index prospect_values_frequent_of_all on prospect_values (generation, people desc, value, member);
create index prospect_values_words on prospect_values using gin (words);
comment on table prospect_values is
  'What suggestions are taken from. After each import a new generation is written beside the old one, then shown.';

create table catalog_state (
  only_row          boolean        not null default true,
  values_generation bigint         not null default 0,
  imported_at       timestamptz(3),
  person_id_secret  bytea          not null,
  constraint catalog_state_pkey primary key (only_row),
  constraint catalog_state_has_one_row check (only_row)
);
comment on column catalog_state.values_generation is 'The generation of prospect_values that is shown.';
comment on column catalog_state.person_id_secret is
  'A secret of this installation. The id of an imported person without profile URL is computed from it and the e-mail address: a plain hash of the address would tell it to whoever guesses it.';

-- Two random UUIDs have 244 random bits.
insert into catalog_state (person_id_secret) select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

create table catalog_imports (
  source      text           not null,
  incarnation text           not null default '',
  position    bigint         not null default 0,
  line        bigint         not null default 0,
  loaded      bigint         not null default 0,
  bad         bigint         not null default 0,
  started_at  timestamptz(3) not null default clock_timestamp(),
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint catalog_imports_pkey primary key (source)
);
comment on table catalog_imports is
  'Imports that run or were interrupted. Everything before `position` is in the catalog.';
comment on column catalog_imports.incarnation is
  'As in catalogs. An interrupted import continues in the incarnation in which it began, and in no other.';

create table catalogs (
  name        text           not null,
  incarnation text           not null,
  is_searched boolean        not null,
  imported_at timestamptz(3),
  constraint catalogs_pkey primary key (name)
);
comment on table catalogs is
  'The catalogs that imports have written: the one in this database, and those in search clusters. A search cluster can lose what it stores; this table says that it stored something, and in which index.';
comment on column catalogs.name is
  '`postgres`, or the alias under which a cluster''s index of people is searched.';
comment on column catalogs.incarnation is
  'What imports write to: the uuid of the index, or the file of the table `prospects`. Another incarnation has other people.';
comment on column catalogs.is_searched is
  'Whether searches see this incarnation. One that replaces a lost catalog is searched from the end of its first import.';
comment on column catalogs.imported_at is 'End of the last finished import; null until there is one.';

create table unlocks (
  customer_id uuid           not null,
  prospect_id uuid           not null,
  job_id      uuid,
  in_catalog  boolean        not null default false,
  unlocked_at timestamptz(3) not null default clock_timestamp(),
  constraint unlocks_pkey primary key (customer_id, prospect_id)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
-- The one question about a prospect rather than a customer: which customers' unlocks the cluster has to know.
create index unlocks_prospect on unlocks (prospect_id, customer_id);
create index unlocks_untold on unlocks (unlocked_at) where not in_catalog;
comment on table unlocks is
  'The truth about who has unlocked whom, whichever engine the catalog has. No foreign key to prospects: they may be in a cluster, and an unlock outlives its prospect''s import.';
comment on column unlocks.in_catalog is 'Whether the search cluster has this unlock.';

grant select, insert, update, delete on prospects, prospect_values, catalog_imports, catalogs to sales_data_api;
grant select, update on catalog_state to sales_data_api;
grant select, insert, update on unlocks to sales_data_api;
-- After a load the planner must know at once what is there.
grant maintain on prospects, prospect_values to sales_data_api;
