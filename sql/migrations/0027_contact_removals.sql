-- oldest release: 1.0.0
-- A deleted contact of very many opportunities is removed from them in small transactions of a worker
-- (src/queries/sales/opportunity-contacts.ts).

-- One row for each deleted contact that rows of opportunity_contacts still name. No read shows these rows.
create table contact_removals (
  customer_id uuid not null,
  contact_id  uuid not null,
  constraint contact_removals_pkey primary key (customer_id, contact_id)
);
-- place: contact_removals
grant select, insert, update, delete on contact_removals to sales_data_api;

-- A contact is always deleted at once, with all that it says about a person. Until the worker is done, these rows name a
-- contact that does not exist.
alter table opportunity_contacts drop constraint opportunity_contacts_contact_fkey;
