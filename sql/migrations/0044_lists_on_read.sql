-- oldest release: 1.1.0
-- The rules of lists are evaluated on read. Until here, each writer of contacts wrote a membership for each rule that
-- matched. Beside instances that do not write these any more, instances of 1.0.0 would show wrong members: they are not
-- ready from now on. So this upgrade has a pause: until 0046 is applied and the new instances run.

alter table lists add column contacts_count integer not null default 0;
alter table lists add column counted_at timestamptz(3);
alter table lists add column is_count_due boolean not null default false;
comment on column lists.contacts_count is
  'Number of members of a list with rules when it was counted last. Only the list of lists shows it, and only for customers with many contacts.';
comment on column lists.counted_at is 'Null if the list was not counted since its rules changed.';
comment on column lists.is_count_due is 'A read had no time to count the members: a worker counts them.';
comment on column lists.deleted_at is
  'The row of a deleted list and its members stay for HISTORY_DAYS. Nobody is shown them.';
comment on column lists.rule_count is
  'For the limit of a customer, which is checked without reading the rules: these may be many MiB.';
comment on column companies.deleted_at is
  'The row of a deleted company, and the references of contacts and opportunities to it, stay for HISTORY_DAYS. Nobody is shown them.';
comment on table opportunity_contacts is 'No foreign key to contacts: who deletes a contact deletes its rows here.';
comment on column counters.counted is '`contacts` or `companies`.';
