-- oldest release: 1.1.0
-- The message of a turn is a worker's only sign of life. A job or import keeps which turn works at it, and the number of
-- turns that have taken it. Jobs under way go on: no turn has them.

alter table jobs drop constraint jobs_lease_while_unfinished;
alter table jobs drop constraint jobs_lease_whole;
alter table jobs drop column lease;
alter table jobs drop column leased_until;
alter table jobs rename column served_at to due_at;
alter table jobs add column attempt integer not null default 0;
alter table jobs add column turn uuid;
comment on column jobs.due_at is
  'From when a turn may take the job. Of the customer''s jobs the one that is due for the longest time comes next; a job that rests is due later.';
comment on column jobs.attempt is
  'Number of turns that have taken the job. Every transaction of a turn compares it: one that another turn has followed writes nothing.';
comment on column jobs.turn is
  'Message of the turn that works at the job, if it is still active in the queue. Null: the job is free.';

alter table imports drop constraint imports_lease_while_unfinished;
alter table imports drop constraint imports_lease_whole;
alter table imports drop column lease;
alter table imports drop column leased_until;
alter table imports rename column served_at to due_at;
alter table imports add column attempt integer not null default 0;
alter table imports add column turn uuid;
comment on column imports.due_at is 'As in jobs.';
comment on column imports.attempt is 'As in jobs.';
comment on column imports.turn is 'As in jobs.';

drop table worker_slots;
