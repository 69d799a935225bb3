-- oldest release: 1.0.0
-- Jobs that spend credits, and the ledger of the credits. The ledger is the truth: entries are added, never changed, and
-- the service has no right to do more. The balances are written in the same transaction, the customer's row last, so that
-- its lock is short.

create table jobs (
  customer_id  uuid           not null,
  id           uuid           not null default uuidv7(),
  type         text           not null,
  status       text           not null default 'PENDING',
  sync_crm     boolean        not null,
  request      jsonb          not null default '{}',
  pool         text           not null,
  total        integer        not null,
  cost         integer        not null,
  succeeded    integer        not null default 0,
  failed       integer        not null default 0,
  skipped      integer        not null default 0,
  reserved     bigint         not null,
  charged      bigint         not null default 0,
  refunded     bigint         not null default 0,
  progress     jsonb,
  error        text,
  failures     smallint       not null default 0,
  lease        uuid,
  leased_until timestamptz(3),
  served_at    timestamptz(3),
  created_at   timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  started_at   timestamptz(3),
  finished_at  timestamptz(3),
  purged_at    timestamptz(3),
  constraint jobs_pkey primary key (customer_id, id),
  constraint jobs_type_known check (type in ('unlock_contacts', 'unlock_selected_contacts', 'verify_email', 'verify_list')),
  constraint jobs_status_known check (status in ('PENDING', 'PROCESSING', 'COMPLETED', 'FAILED', 'CANCELLED')),
  constraint jobs_pool_known check (pool in ('subscription', 'verification')),
  constraint jobs_counts_not_negative check (least(total, cost, succeeded, failed, skipped, reserved, charged, refunded) >= 0),
  constraint jobs_processed_within_total check (succeeded + failed + skipped <= total),
  constraint jobs_spend_within_reserved check (charged + refunded <= reserved),
  constraint jobs_end_settled check (finished_at is null or charged + refunded = reserved),
  constraint jobs_end_with_time check ((status in ('COMPLETED', 'FAILED', 'CANCELLED')) = (finished_at is not null)),
  constraint jobs_begin_with_time check (status <> 'PENDING' or started_at is null),
  constraint jobs_lease_whole check ((lease is null) = (leased_until is null)),
  constraint jobs_lease_while_unfinished check (lease is null or finished_at is null)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
create index jobs_unfinished on jobs (customer_id, served_at nulls first, id) where finished_at is null;
create index jobs_ended on jobs (finished_at) where finished_at is not null and purged_at is null;
comment on column jobs.request is
  'What was asked, as far as job_inputs does not say it: filters, order and number of unlock_contacts; list of verify_list.';
comment on column jobs.cost is 'Credits for one item, as they were when the job began.';
comment on column jobs.progress is
  'Where unlock_contacts continues: the catalog''s position after the last prospect that it looked at.';
comment on column jobs.failures is
  'Turns in a row that ended in an unexpected error. Waiting for the catalog, or a worker''s death, does not count.';
comment on column jobs.lease is
  'Who works at the job. A turn whose lease another turn has taken settles nothing any more. A job that rests after an error is leased to nobody.';
comment on column jobs.served_at is
  'When the last turn began: the customer''s job that has waited longest comes next.';
comment on column jobs.purged_at is
  'When the inputs and results of the ended job were removed, because their time was over.';

create table job_inputs (
  customer_id  uuid    not null,
  job_id       uuid    not null,
  position     integer not null,
  item         text    not null,
  contact_ids  uuid[]  not null default '{}',
  is_duplicate boolean not null default false,
  constraint job_inputs_pkey primary key (customer_id, job_id, position),
  constraint job_inputs_job_fkey foreign key (customer_id, job_id) references jobs (customer_id, id)
);
comment on table job_inputs is
  'What a job was given, one row for each item. unlock_contacts has none: its filters choose.';
comment on column job_inputs.item is 'A prospect''s id or an e-mail address.';
comment on column job_inputs.contact_ids is 'The contacts that a verification is for.';
comment on column job_inputs.is_duplicate is 'Equal to an item before it, and skipped.';

create table job_results (
  customer_id uuid           not null,
  job_id      uuid           not null,
  position    integer        not null,
  item        text           not null,
  contact_id  uuid,
  status      text           not null,
  reason      text,
  charged     integer        not null,
  result      jsonb,
  finished_at timestamptz(3) not null default clock_timestamp(),
  constraint job_results_pkey primary key (customer_id, job_id, position),
  constraint job_results_job_fkey foreign key (customer_id, job_id) references jobs (customer_id, id),
  constraint job_results_status_known check (status in ('succeeded', 'failed', 'skipped')),
  constraint job_results_charge_for_success check (charged >= 0 and (charged = 0 or status = 'succeeded'))
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
comment on table job_results is
  'The result of each item. A row is inserted by the transaction that charges for it, and never changed: its primary key forbids to charge for the same input twice, as the key of `unlocks` does for the same prospect.';

create table credit_balances (
  customer_id uuid           not null,
  pool        text           not null,
  available   bigint         not null default 0,
  reserved    bigint         not null default 0,
  entries     bigint         not null default 0,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint credit_balances_pkey primary key (customer_id, pool),
  constraint credit_balances_customer_fkey foreign key (customer_id) references customers (id),
  constraint credit_balances_pool_known check (pool in ('subscription', 'verification')),
  constraint credit_balances_available_not_negative check (available >= 0),
  constraint credit_balances_reserved_not_negative check (reserved >= 0)
) with (fillfactor = 50);
comment on column credit_balances.entries is 'The number of the last entry.';

create table credit_entries (
  customer_id    uuid        not null,
  id             uuid        not null default uuidv7(),
  pool           text        not null,
  number         bigint      not null,
  kind           text        not null,
  amount         bigint      not null,
  balance_after  bigint      not null,
  reserved_after bigint      not null,
  job_id         uuid,
  note           text,
  created_at     timestamptz generated always as (uuid_extract_timestamp(id)) virtual,
  constraint credit_entries_pkey primary key (customer_id, id),
  constraint credit_entries_numbered unique (customer_id, pool, number),
  constraint credit_entries_balance_fkey foreign key (customer_id, pool) references credit_balances (customer_id, pool),
  constraint credit_entries_job_fkey foreign key (customer_id, job_id) references jobs (customer_id, id),
  constraint credit_entries_kind_known check (kind in ('grant', 'reserve', 'charge', 'release', 'adjust')),
  constraint credit_entries_amount_positive check (amount > 0 or (kind = 'adjust' and amount <> 0)),
  constraint credit_entries_never_negative check (balance_after >= 0 and reserved_after >= 0),
  constraint credit_entries_of_jobs check ((job_id is not null) = (kind in ('reserve', 'charge', 'release')))
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
-- A job reserves once and releases once.
create unique index credit_entries_once_a_job on credit_entries (customer_id, job_id, kind) where kind in ('reserve', 'release');
comment on table credit_entries is 'Append-only: the service may not update or delete.';
comment on column credit_entries.number is
  'Entries of a pool are numbered without a gap, under the lock of its balance. So their order depends on no clock, and a missing entry is noticed.';

create table worker_slots (
  kind        text           not null,
  process_id  uuid           not null,
  number      smallint       not null,
  customer_id uuid,
  seen_at     timestamptz(3) not null default clock_timestamp(),
  constraint worker_slots_pkey primary key (kind, process_id, number)
) with (fillfactor = 50);
comment on table worker_slots is
  'The slots for jobs of all live worker processes. Each kind of job shares its slots between customers over all processes. A process inserts its rows when it starts, renews seen_at every few seconds, and deletes them when it ends. Rows of a dead process are ignored, and deleted later.';
comment on column worker_slots.customer_id is
  'The customer whose job runs in the slot; null while the slot is free.';

grant select, insert, update on jobs, credit_balances to sales_data_api;
grant select, insert, delete on job_inputs, job_results to sales_data_api;
grant select, insert on credit_entries to sales_data_api;
grant select, insert, update, delete on worker_slots to sales_data_api;
