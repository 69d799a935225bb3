-- oldest release: 1.0.0
-- Accounts: who may use the service. Customers, users, keys and sessions are the only globally unique things. Every other
-- table belongs to tenants: its primary key and foreign keys start with customer_id, so the database itself refuses a
-- reference to another customer's data.

-- The role that the service works as. It owns nothing and has exactly the rights granted below.
do $$
begin
  if not exists (select from pg_roles where rolname = 'sales_data_api') then
    create role sales_data_api nologin;
  end if;
exception
  when duplicate_object or unique_violation then null; -- another database of this server created it meanwhile
end $$;

-- If there is only the owner's login, the service switches to the narrow role in every connection.
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
comment on column users.email_folded is 'The address in the form in which accounts are compared.';

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
-- Finds a customer's live keys, and the keys that ended last, however many ended keys there are.
create index api_keys_end on api_keys (customer_id, least(revoked_at, expires_at));
comment on column api_keys.start is 'The first characters of the key, by which people recognise it.';

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
comment on table audit_events is 'Append-only: the service may not update or delete.';
comment on column audit_events.customer_id is 'Null if no account was found, as after a login with an unknown address.';

create table failed_logins (
  customer_id uuid           not null,
  user_id     uuid           not null,
  day         date           not null,
  reason      text           not null,
  address     text           not null,
  id          uuid           not null default uuidv7(),
  attempts    integer        not null default 1,
  first_at    timestamptz(3) not null default clock_timestamp(),
  last_at     timestamptz(3) not null default clock_timestamp(),
  constraint failed_logins_pkey primary key (customer_id, user_id, day, reason, address)
) with (fillfactor = 50);
comment on table failed_logins is
  'Counts of failed logins by account, day (UTC), reason and address. They are not in audit_events, because anybody can make attempts, and it would get a row for each. customer_id and user_id are zeros if there is no such account.';
comment on column failed_logins.address is
  'Empty in the row that counts the attempts from all further addresses of that day.';

create table idempotency_records (
  customer_id uuid           not null,
  key         text           not null collate "C",
  fingerprint bytea          not null,
  status      smallint       not null,
  body        json           not null,
  created_at  timestamptz(3) not null default clock_timestamp(),
  constraint idempotency_records_pkey primary key (customer_id, key),
  constraint idempotency_records_status_is_success check (status between 200 and 299),
  constraint idempotency_records_fingerprint_is_sha256 check (octet_length(fingerprint) = 32)
);
create index idempotency_records_age on idempotency_records (created_at);
comment on table idempotency_records is
  'The first successful answer to a request with an Idempotency-Key, written in the transaction of its effect.';
comment on column idempotency_records.body is 'json, not jsonb: the members of a repeated answer keep their order.';

grant select, insert, update on customers, subscriptions, users, api_keys, failed_logins to sales_data_api;
grant select on subscription_tiers to sales_data_api;
grant select, insert, update, delete on sessions, idempotency_records to sales_data_api;
grant select, insert on audit_events to sales_data_api;
