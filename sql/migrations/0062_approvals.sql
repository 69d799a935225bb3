-- oldest release: 1.1.0
-- Keys whose larger writes wait until an admin has approved them.

alter table api_keys add column approve_over jsonb not null default '{}';
comment on column api_keys.approve_over is
  'What a call of the key may cost (credits) and write (records) without the approval of an admin; null or absent: any number.';

create table approvals (
  customer_id  uuid           not null,
  id           uuid           not null default uuidv7(),
  api_key_id   uuid           not null,
  url          text           not null,
  body         bytea          not null,
  credits      bigint         not null,
  records      bigint         not null,
  status       text           not null default 'pending',
  decided_by   text,
  decided_at   timestamptz(3),
  answer       jsonb,
  created_at   timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  constraint approvals_pkey primary key (customer_id, id),
  constraint approvals_status_known check (status in ('pending', 'approved', 'refused')),
  constraint approvals_decided check ((status = 'pending') = (decided_at is null))
);
-- place: approvals
comment on table approvals is
  'Calls of API keys that wait, or waited, for the approval of an admin. Kept for 30 days.';
comment on column approvals.url is 'Path and query of the POST that the key sent.';
comment on column approvals.body is 'Its body. Empty when it was decided.';
comment on column approvals.credits is 'The most that the call would cost.';
comment on column approvals.records is 'How many records it would write.';
comment on column approvals.answer is 'The body with which the call was answered when it ran.';

grant select, insert, update, delete on approvals to sales_data_api;
