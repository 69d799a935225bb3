-- oldest release: 1.1.0
-- Views of the tables of contacts, companies and opportunities under a name, for one user or for all of the customer.

create table saved_views (
  customer_id uuid        not null,
  id          uuid        not null default uuidv7(),
  user_id     uuid        not null,
  object      text        not null,
  name        text        not null,
  query       text        not null,
  is_shared   boolean     not null,
  created_at  timestamptz generated always as (uuid_extract_timestamp(id)) virtual,
  constraint saved_views_pkey primary key (customer_id, id),
  constraint saved_views_name_key unique (customer_id, user_id, object, name),
  constraint saved_views_object_known check (object in ('contacts', 'companies', 'opportunities'))
);
-- place: saved_views
comment on table saved_views is 'What people have filtered, sorted and chosen, under a name. At most 100 of a customer.';
comment on column saved_views.user_id is 'The user who saved it.';
comment on column saved_views.query is 'The parameters of the page''s address.';
comment on column saved_views.is_shared is 'All users of the customer see it.';

grant select, insert, update, delete on saved_views to sales_data_api;
