-- oldest release: 1.0.0
-- Caps on what an API key may spend, and what each key has spent. The caps stand with the key. What was spent stands with
-- the customer's balances, because the start of a job writes it.

alter table api_keys add column spend_caps jsonb not null default '{"subscription": null, "verification": null}';
comment on column api_keys.spend_caps is
  'For each pool, the credits that jobs of the key may cost (amount) and in which time (per: day or month in UTC, or total); null: no cap.';

alter table jobs add column api_key_id uuid;
comment on column jobs.api_key_id is
  'The key whose call started the job. Null: a session or the command line did.';

create table key_spending (
  customer_id uuid   not null,
  api_key_id  uuid   not null,
  pool        text   not null,
  day         date   not null,
  spent       bigint not null,
  constraint key_spending_pkey primary key (customer_id, api_key_id, pool, day),
  constraint key_spending_pool_known check (pool in ('subscription', 'verification')),
  constraint key_spending_not_negative check (spent >= 0)
) with (fillfactor = 50);
-- place: key_spending
alter table key_spending add constraint key_spending_customer_fkey foreign key (customer_id) references customers (id);
comment on table key_spending is
  'What the jobs of a key reserved, less what they released, by the day (UTC) on which they were started.';

grant select, insert, update on key_spending to sales_data_api;
