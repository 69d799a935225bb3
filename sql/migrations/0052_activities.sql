-- oldest release: 1.1.0
-- Activities: notes, tasks, calls, meetings and e-mails with contacts, companies and opportunities.

create table activities (
  customer_id            uuid           not null,
  id                     uuid           not null default uuidv7(),
  external_id            text           collate "C",
  type                   text           not null,
  title                  text           not null,
  body                   text           not null,
  contact_id             uuid,
  company_id             uuid,
  opportunity_id         uuid,
  assigned_to            uuid,
  due_at                 timestamptz(3),
  done_at                timestamptz(3),
  occurred_at            timestamptz(3) not null,
  created_by             json           not null,
  folded                 jsonb          not null,
  deleted_contact_id     uuid,
  deleted_company_id     uuid,
  deleted_opportunity_id uuid,
  hidden_at              timestamptz(3),
  created_at             timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at             timestamptz(3) not null default clock_timestamp(),
  constraint activities_pkey primary key (customer_id, id),
  constraint activities_type_known check (type in ('note', 'task', 'call', 'meeting', 'email')),
  constraint activities_have_text check (title <> '' or body <> ''),
  constraint activities_of_something check (num_nonnulls(contact_id, company_id, opportunity_id, hidden_at) > 0),
  constraint activities_due_are_tasks check (type = 'task' or num_nonnulls(due_at, done_at) = 0)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
-- place: activities
alter table activities add constraint activities_contact_fkey
  foreign key (customer_id, contact_id) references contacts (customer_id, id);
alter table activities add constraint activities_company_fkey
  foreign key (customer_id, company_id) references companies (customer_id, id);
alter table activities add constraint activities_opportunity_fkey
  foreign key (customer_id, opportunity_id) references opportunities (customer_id, id);
alter table activities add constraint activities_assignee_fkey
  foreign key (customer_id, assigned_to) references users (customer_id, id);
comment on table activities is
  'A deleted contact, company or opportunity takes its activities with it where they have no other reference.';
comment on column activities.external_id is
  'The caller''s own id, compared byte by byte. Unique among the customer''s activities that are not hidden.';
comment on column activities.created_by is 'Who created it, as in journal.';
comment on column activities.folded is 'Title and body without regard to case and accents, as in companies.';
comment on column activities.deleted_contact_id is
  'The contact that it had, and that was deleted since. It gets it back if the deletion is undone. So with the company and the opportunity.';
comment on column activities.hidden_at is
  'Set if all to which it refers was deleted. Nobody is shown it, and a worker deletes it after HISTORY_DAYS.';

create unique index activities_external_id_key on activities (customer_id, external_id)
  where external_id is not null and hidden_at is null;
-- The activities of a record, and when the last one was.
create index activities_contact on activities (customer_id, contact_id, occurred_at) where contact_id is not null;
create index activities_company on activities (customer_id, company_id, occurred_at) where company_id is not null;
create index activities_opportunity on activities (customer_id, opportunity_id, occurred_at) where opportunity_id is not null;
-- What an undo gives back.
create index activities_deleted_contact on activities (customer_id, deleted_contact_id) where deleted_contact_id is not null;
create index activities_deleted_company on activities (customer_id, deleted_company_id) where deleted_company_id is not null;
create index activities_deleted_opportunity on activities (customer_id, deleted_opportunity_id)
  where deleted_opportunity_id is not null;
-- What a worker deletes.
create index activities_hidden on activities (hidden_at) where hidden_at is not null;
-- Orders of lists and exports.
create index activities_occurred_at on activities (customer_id, occurred_at, id);
create index activities_updated_at on activities (customer_id, updated_at, id);
-- Tasks to do.
create index activities_open_tasks on activities (customer_id, due_at) where type = 'task' and done_at is null;

grant select, insert, update, delete on activities to sales_data_api;

-- The purge of a contact finds what was deleted before.
create index journal_activities on journal (customer_id, (before ->> 'contact_id')) where type = 'activity.deleted';

-- Keys that may do everything may do it with activities, too.
update api_keys
set permissions = permissions || '{activities:read,activities:create,activities:update,activities:delete}'::text[]
where permissions @> '{customer:read,contacts:read,contacts:create,contacts:update,contacts:delete,companies:read,companies:create,companies:update,companies:delete,list_contacts:read,list_contacts:create,list_contacts:update,list_contacts:delete,list_contact_details:update,products:read,products:create,products:update,products:delete,opportunities:read,opportunities:create,opportunities:update,opportunities:delete,pipelines:read,stages:read,prospect:read,payment_prospect:create,verify_email:create}'::text[];
