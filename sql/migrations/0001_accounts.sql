-- Accounts: who may use the service. Customers, users, keys and sessions are the only globally unique things;
-- every other table is a tenant's, with a primary key and foreign keys that start with customer_id, so that the
-- database itself refuses a reference into another customer's data.

-- The role that the service works as. It owns nothing and gets exactly the rights granted below.
do $$
begin
  if not exists (select from pg_roles where rolname = 'sales_data_api') then
    create role sales_data_api nologin;
  end if;
exception
  when duplicate_object or unique_violation then null; -- another database of this server made it meanwhile
end $$;

-- A server handed over with one login only (DATABASE_URL of the owner) still runs the service with the narrow role.
do $$
begin
  if not pg_has_role(current_user, 'sales_data_api', 'set') then
    execute format('grant sales_data_api to %I with set true', current_user);
  end if;
end $$;

create table customers (
  id            uuid           not null default uuidv7(),
  business_name text           not null,
  status        text           not null default 'OK',
  country       text,
  city          text,
  created_at    timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at    timestamptz(3) not null default clock_timestamp(),
  constraint customers_pkey primary key (id),
  constraint customers_status_known check (status in ('OK', 'SUSPENDED'))
);

create table subscription_tiers (
  id      uuid          not null default uuidv7(),
  title   text          not null,
  tier    integer       not null,
  is_free boolean       not null,
  price   numeric(11,2) not null,
  constraint subscription_tiers_pkey primary key (id),
  constraint subscription_tiers_tier_key unique (tier),
  constraint subscription_tiers_price_not_negative check (price >= 0)
);

insert into subscription_tiers (title, tier, is_free, price) values ('Free', 0, true, 0);

create table subscriptions (
  customer_id uuid           not null,
  id          uuid           not null default uuidv7(),
  tier_id     uuid           not null,
  status      text           not null default 'active',
  price       numeric(11,2)  not null default 0,
  periodicity text           not null default 'monthly',
  currency    text           not null default 'USD',
  created_at  timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint subscriptions_pkey primary key (customer_id, id),
  constraint subscriptions_customer_key unique (customer_id),
  constraint subscriptions_customer_fkey foreign key (customer_id) references customers (id),
  constraint subscriptions_tier_fkey foreign key (tier_id) references subscription_tiers (id),
  constraint subscriptions_price_not_negative check (price >= 0)
);

create table users (
  id            uuid           not null default uuidv7(),
  customer_id   uuid           not null,
  email         text           not null,
  email_folded  text           not null collate "C",
  name          text           not null,
  role          text           not null,
  active        boolean        not null default true,
  password_hash text           not null,
  created_at    timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at    timestamptz(3) not null default clock_timestamp(),
  constraint users_pkey primary key (id),
  constraint users_customer_id_key unique (customer_id, id),
  constraint users_email_key unique (email_folded),
  constraint users_customer_fkey foreign key (customer_id) references customers (id),
  constraint users_role_known check (role in ('admin', 'member'))
);

create table sessions (
  token_hash  bytea          not null,
  customer_id uuid           not null,
  user_id     uuid           not null,
  created_at  timestamptz(3) not null default clock_timestamp(),
  expires_at  timestamptz(3) not null,
  constraint sessions_pkey primary key (token_hash),
  constraint sessions_user_fkey foreign key (customer_id, user_id) references users (customer_id, id)
);
create index sessions_user on sessions (customer_id, user_id);

create table api_keys (
  id            uuid           not null default uuidv7(),
  customer_id   uuid           not null,
  key_hash      bytea          not null,
  name          text           not null,
  start         text           not null,
  permissions   text[]         not null,
  duration_days integer        not null,
  expires_at    timestamptz(3) not null,
  revoked_at    timestamptz(3),
  last_used_at  timestamptz(3),
  created_by    uuid           not null,
  created_at    timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at    timestamptz(3) not null default clock_timestamp(),
  constraint api_keys_pkey primary key (id),
  constraint api_keys_hash_key unique (key_hash),
  constraint api_keys_hash_is_sha256 check (octet_length(key_hash) = 32),
  constraint api_keys_customer_fkey foreign key (customer_id) references customers (id),
  constraint api_keys_creator_fkey foreign key (customer_id, created_by) references users (customer_id, id),
  constraint api_keys_duration_known check (duration_days in (7, 30, 90, 365)),
  constraint api_keys_permissions_given check (cardinality(permissions) > 0)
);
create index api_keys_customer on api_keys (customer_id, id);

-- Append-only: see the grants below. customer_id is null where no account was found (a login with an unknown address).
create table audit_events (
  id          uuid        not null default uuidv7(),
  customer_id uuid,
  user_id     uuid,
  api_key_id  uuid,
  event       text        not null,
  actor       text        not null,
  address     text,
  details     jsonb       not null default '{}',
  created_at  timestamptz generated always as (uuid_extract_timestamp(id)) virtual,
  constraint audit_events_pkey primary key (id)
);
create index audit_events_customer on audit_events (customer_id, id);

grant select, insert, update on customers, subscriptions, users, api_keys to sales_data_api;
grant select on subscription_tiers to sales_data_api;
grant select, insert, update, delete on sessions to sales_data_api;
grant select, insert on audit_events to sales_data_api;
