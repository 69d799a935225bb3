-- oldest release: 1.1.0
-- What customers say their own fields of contacts and companies are.

create table declared_fields (
  customer_id  uuid    not null,
  object       text    not null,
  key          text    not null,
  label        text    not null,
  type         text    not null,
  choices      text[]  not null default '{}',
  constraint declared_fields_pkey primary key (customer_id, object, key),
  constraint declared_fields_object_known check (object in ('contacts', 'companies')),
  constraint declared_fields_type_known
    check (type in ('text', 'long_text', 'number', 'boolean', 'date', 'url', 'choice')),
  constraint declared_fields_choices check ((type = 'choice') = (choices <> '{}'))
);
-- place: declared_fields
comment on table declared_fields is
  'Types of custom fields. A value that is not of its type is refused when it is written; stored values stay.';
comment on column declared_fields.key is 'The member of custom_fields.';
comment on column declared_fields.label is 'What people call it.';

grant select, insert, update, delete on declared_fields to sales_data_api;
