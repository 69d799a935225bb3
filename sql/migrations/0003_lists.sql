-- oldest release: 1.0.0
-- Lists of contacts, by hand and by rules.

create table lists (
  customer_id  uuid           not null,
  id           uuid           not null default uuidv7(),
  name         text           not null,
  description  text           not null default '',
  owner_id     uuid           not null,
  source       text           not null default 'MANUAL',
  rules        jsonb          not null default '[]',
  rule_count   integer        generated always as (jsonb_array_length(rules)) stored,
  fill_version uuid,
  filled_to    uuid,
  is_copying   boolean        not null default false,
  deleted_at   timestamptz(3),
  created_at   timestamptz    generated always as (uuid_extract_timestamp(id)) virtual,
  updated_at   timestamptz(3) not null default clock_timestamp(),
  constraint lists_pkey primary key (customer_id, id),
  constraint lists_owner_fkey foreign key (customer_id, owner_id) references users (customer_id, id),
  constraint lists_source_known check (source in ('MANUAL', 'IMPORT', 'PROSPECT')),
  constraint lists_rules_are_array check (jsonb_typeof(rules) = 'array'),
  constraint lists_progress_of_a_fill check (filled_to is null or fill_version is not null)
);
create index lists_with_rules on lists (customer_id, id) include (rule_count) where rule_count > 0;
create index lists_filling on lists (customer_id) where fill_version is not null;
comment on column lists.rule_count is
  'For the limits of a customer, which are checked without reading the rules: these may be many MiB.';
comment on column lists.fill_version is
  'The change of the rules that is not yet written to list_members. Null once the members are what the rules say. Until then list_members.by_rule is not relied on: the rules are evaluated on read.';
comment on column lists.filled_to is
  'The last contact, in the order of ids, for which the change of the rules has been written.';
comment on column lists.is_copying is
  'Whether contacts may wait in copied_members to become members of the list.';
comment on column lists.deleted_at is
  'The row of a deleted list and its members stay until a worker has removed them. Nobody is shown them.';

create table list_members (
  customer_id uuid    not null,
  list_id     uuid    not null,
  contact_id  uuid    not null,
  by_hand     boolean not null,
  by_rule     boolean not null default false,
  constraint list_members_pkey primary key (customer_id, list_id, contact_id),
  constraint list_members_list_fkey foreign key (customer_id, list_id) references lists (customer_id, id),
  constraint list_members_contact_fkey foreign key (customer_id, contact_id) references contacts (customer_id, id),
  constraint list_members_for_a_reason check (by_hand or by_rule)
) with (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
create index list_members_contact on list_members (customer_id, contact_id);

create table copied_members (
  customer_id uuid   not null,
  list_id     uuid   not null,
  first_id    uuid   not null,
  contact_ids uuid[] not null,
  constraint copied_members_pkey primary key (customer_id, list_id, first_id),
  constraint copied_members_list_fkey foreign key (customer_id, list_id) references lists (customer_id, id)
);
comment on table copied_members is
  'Contacts that were copied to a list and are not in list_members yet: its members by hand, in parts of consecutive ids. A worker writes them in small transactions. A contact that is deleted may stay here.';
comment on column copied_members.first_id is 'The first contact that the part was created with.';

create table rule_versions (
  customer_id uuid not null,
  version     uuid not null default uuidv7(),
  constraint rule_versions_pkey primary key (customer_id),
  constraint rule_versions_customer_fkey foreign key (customer_id) references customers (id)
);
comment on table rule_versions is
  'One row for each customer who ever had rules. The version changes with every change of any list''s rules. A process that has compiled the rules of this version need not read them again.';

grant select, insert, update, delete on lists, list_members, copied_members, rule_versions to sales_data_api;
