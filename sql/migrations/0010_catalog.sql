-- The prospect catalog: people that every customer can look for, and who has unlocked whom. Without a search cluster the
-- people live here. What is compared (columns named like members of `person`, tokens, words) is the folded form that the
-- service computes (src/fold.ts), compared as bytes.

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
-- Every text filter in one index: src/catalog/document.ts says how a token names its member.
create index prospects_tokens on prospects using gin (tokens);
-- How frequent a token is decides between this index and the order's: know more of them than the usual 1,000.
alter table prospects alter column tokens set statistics 1000;

-- What suggestions are taken from, rebuilt after each import: a new generation is written beside the old one, then shown.
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

-- One row: what the catalog as a whole is at.
create table catalog_state (
  only_row          boolean        not null default true,
  values_generation bigint         not null default 0,
  imported_at       timestamptz(3),
  constraint catalog_state_pkey primary key (only_row),
  constraint catalog_state_has_one_row check (only_row)
);
insert into catalog_state default values;

-- Imports that are under way or were interrupted: how far everything before is in the catalog for certain.
create table catalog_imports (
  source     text           not null,
  position   bigint         not null default 0,
  line       bigint         not null default 0,
  loaded     bigint         not null default 0,
  bad        bigint         not null default 0,
  started_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),
  constraint catalog_imports_pkey primary key (source)
);

-- The truth about who has unlocked whom, whichever engine the catalog has. `in_catalog` tells that a search cluster knows.
-- No foreign key to prospects: they may live in a cluster, and an unlock outlives its prospect's re-import.
create table unlocks (
  customer_id uuid           not null,
  prospect_id uuid           not null,
  in_catalog  boolean        not null default false,
  unlocked_at timestamptz(3) not null default clock_timestamp(),
  constraint unlocks_pkey primary key (customer_id, prospect_id)
);
-- The one question about a prospect rather than a customer: whom the cluster has to be told of.
create index unlocks_prospect on unlocks (prospect_id, customer_id);
create index unlocks_untold on unlocks (unlocked_at) where not in_catalog;

grant select, insert, update, delete on prospects, prospect_values, catalog_imports to sales_data_api;
grant select, update on catalog_state to sales_data_api;
grant select, insert, update on unlocks to sales_data_api;
-- After a load the planner must know what is there at once.
grant maintain on prospects, prospect_values to sales_data_api;
