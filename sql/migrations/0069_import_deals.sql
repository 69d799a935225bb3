-- oldest release: 1.1.0
-- Files of products and opportunities can be imported, too.

alter table imports drop constraint imports_object_known;
alter table imports add constraint imports_object_known
  check (object in ('contacts', 'companies', 'products', 'opportunities'));
alter table import_mappings drop constraint import_mappings_object_known;
alter table import_mappings add constraint import_mappings_object_known
  check (object in ('contacts', 'companies', 'products', 'opportunities'));
