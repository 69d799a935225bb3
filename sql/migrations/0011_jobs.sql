-- Jobs that spend credits, and the ledger of the credits. The ledger is the truth: entries are added, never changed, and
-- the service has no right to do more. The balances beside it are written in the same transaction, the customer's row last,
-- so that its lock is short.

create table jobs (
  customer_id  uuid           not null,
  id           uuid           not null default uuidv7(),
  type         text           not null,
  status       text           not null default 'PENDING',
  sync_crm     boolean        not null,
  -- What was asked, as far as the inputs do not say it: of unlock_contacts its filters, order and number; of verify_list its list.
  request      jsonb          not null default '{}',
  pool         text           not null,
  total        integer        not null,
  -- Credits for one item, as they were when the job began.
  cost         integer        not null,
  succeeded    integer        not null default 0,
  failed       integer        not null default 0,
  skipped      integer        not null default 0,
  reserved     bigint         not null,
  charged      bigint         not null default 0,
  refunded     bigint         not null default 0,
  -- Where unlock_contacts goes on: the catalog's position after the last prospect it looked at.
  progress     jsonb,
  error        text,
  -- Turns in a row that ended in an unexpected error. Waiting for the catalog, or a worker's death, is none.
  failures     smallint       not null default 0,
  -- Who works at it: a turn whose lease another has taken settles nothing any more. A job that rests after an error is leased
  -- to nobody.
  lease        uuid,
  leased_until timestamptz(3),
  -- When its last turn began: the customer's job that has waited longest comes next.
  served_at    timestamptz(3),
  created_at   timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  started_at   timestamptz(3),
  finished_at  timestamptz(3),
  -- When the inputs and results of an ended job were removed, its time being over.
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
);
create index jobs_unfinished on jobs (customer_id, served_at nulls first, id) where finished_at is null;
create index jobs_ended on jobs (finished_at) where finished_at is not null and purged_at is null;

-- What a job was given, one row for each; of unlock_contacts nothing, its filters choose.
create table job_inputs (
  customer_id  uuid    not null,
  job_id       uuid    not null,
  position     integer not null,
  -- A prospect's id or an e-mail address.
  item         text    not null,
  -- The contacts that a verification is for.
  contact_ids  uuid[]  not null default '{}',
  -- The same as one before: not worked at again.
  is_duplicate boolean not null default false,
  constraint job_inputs_pkey primary key (customer_id, job_id, position),
  constraint job_inputs_job_fkey foreign key (customer_id, job_id) references jobs (customer_id, id)
);

-- What became of each. A row is inserted by the transaction that charges for it, and never changed: its primary key is what
-- forbids to charge for the same input a second time, as the key of `unlocks` does for the same prospect.
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
);

create table credit_balances (
  customer_id uuid           not null,
  pool        text           not null,
  available   bigint         not null default 0,
  reserved    bigint         not null default 0,
  -- The number of the last entry.
  entries     bigint         not null default 0,
  updated_at  timestamptz(3) not null default clock_timestamp(),
  constraint credit_balances_pkey primary key (customer_id, pool),
  constraint credit_balances_customer_fkey foreign key (customer_id) references customers (id),
  constraint credit_balances_pool_known check (pool in ('subscription', 'verification')),
  constraint credit_balances_available_not_negative check (available >= 0),
  constraint credit_balances_reserved_not_negative check (reserved >= 0)
) with (fillfactor = 50);

-- Append-only: see the grants. Entries of a pool are numbered without a gap, under the lock of its balance: which follows which
-- does not depend on a clock, and that one is missing is seen.
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
);
-- A job reserves once and releases once.
create unique index credit_entries_once_a_job on credit_entries (customer_id, job_id, kind) where kind in ('reserve', 'release');

insert into credit_balances (customer_id, pool)
select id, pool from customers cross join (values ('subscription'), ('verification')) pools (pool);

alter table unlocks add column job_id uuid;

-- The prospect that a contact came from, or was found to be. No foreign key, as in unlocks.
alter table contacts add column prospect_id uuid;
create index contacts_prospect on contacts (customer_id, prospect_id) where prospect_id is not null;

grant select, insert, update on jobs, credit_balances to sales_data_api;
grant select, insert, delete on job_inputs, job_results to sales_data_api;
grant select, insert on credit_entries to sales_data_api;
