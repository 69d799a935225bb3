-- no-transaction
-- oldest release: 1.0.0
-- An address that was verified lately is not verified again, and jobs say what they wait for. Rows of older releases have no
-- address: they are not found, and are too old after a day.

alter table job_inputs add column if not exists address text collate "C";
comment on column job_inputs.address is
  'Of a verification: the e-mail address in its comparable form (folded), by which an earlier result is found.';

alter table job_results add column if not exists verified_address text collate "C";
comment on column job_results.verified_address is
  'The folded address, if this row is a verification that other jobs can reuse: it was made for this row, and ended otherwise than unknown.';

alter table jobs add column if not exists waiting_for text;
alter table jobs add column if not exists waiting_since timestamptz(3);
alter table jobs drop constraint if exists jobs_waiting_for_known;
alter table jobs add constraint jobs_waiting_for_known check (waiting_for in ('name_server')) not valid;
alter table jobs validate constraint jobs_waiting_for_known;
alter table jobs drop constraint if exists jobs_waiting_whole;
alter table jobs add constraint jobs_waiting_whole check ((waiting_for is null) = (waiting_since is null)) not valid;
alter table jobs validate constraint jobs_waiting_whole;
comment on column jobs.waiting_for is 'What an unfinished job waits for; null: nothing but its turn.';
comment on column jobs.waiting_since is 'Since when. It is set once, however often the job tries again.';

drop index concurrently if exists job_results_verified;
create index concurrently job_results_verified on job_results (customer_id, verified_address, finished_at)
  where verified_address is not null;
