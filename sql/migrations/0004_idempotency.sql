-- The first successful answer to a request that carried an Idempotency-Key, written in the transaction of its effect.
-- `body` is json, not jsonb: the replay is the answer as it was, members in their order.
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

grant select, insert, update, delete on idempotency_records to sales_data_api;
