-- oldest release: 1.1.0
-- History reads what happened with one record, and in one call, job or import. The journal is new in this release, so its
-- rows are few.

create index journal_record on journal (customer_id, record_id, position);
create index journal_change on journal (customer_id, change_id, position);
