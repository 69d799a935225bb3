-- oldest release: 1.1.0
-- Jobs that take a change back. They cost nothing: their pool is not shown.

alter table jobs drop constraint jobs_type_known;
alter table jobs add constraint jobs_type_known
  check (type in ('unlock_contacts', 'unlock_selected_contacts', 'verify_email', 'verify_list', 'enrich_contacts', 'undo'));
