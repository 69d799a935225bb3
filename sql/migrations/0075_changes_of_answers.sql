-- oldest release: 1.1.0
-- A repeated request gets the header x-change-id of the first one.

alter table idempotency_records add column change_id uuid;
comment on column idempotency_records.change_id is 'Change that the request made. Null: it changed no record.';
