-- Large lists are deleted and copied at once. A worker removes and writes their members afterwards, in small transactions
-- (src/queries/memberships/large-lists.ts).

-- When the list was deleted. Its row and its members stay until the worker has removed them; nobody is shown them.
alter table lists add column deleted_at timestamptz(3);

-- Whether contacts may wait in copied_members to become members of the list.
alter table lists add column is_copying boolean not null default false;

-- Contacts that were copied to a list and are not in list_members yet: its members by hand, in parts of consecutive ids.
-- A contact that is deleted may stay there.
create table copied_members (
  customer_id uuid   not null,
  list_id     uuid   not null,
  -- The first contact that the part was made with.
  first_id    uuid   not null,
  contact_ids uuid[] not null,
  constraint copied_members_pkey primary key (customer_id, list_id, first_id),
  constraint copied_members_list_fkey foreign key (customer_id, list_id) references lists (customer_id, id)
);

grant select, insert, update, delete on copied_members to sales_data_api;
