-- The slots for jobs of all live worker processes. Each kind of job shares its slots between customers over all processes
-- (src/queries/jobs/worker-slots.ts). A process inserts its rows when it starts, renews `seen_at` every few seconds, and deletes
-- them when it ends. Rows of a dead process are ignored, and deleted later.
create table worker_slots (
  kind        text           not null,
  process_id  uuid           not null,
  number      smallint       not null,
  -- The customer whose job runs in the slot; null while the slot is free.
  customer_id uuid,
  seen_at     timestamptz(3) not null default clock_timestamp(),
  constraint worker_slots_pkey primary key (kind, process_id, number)
) with (fillfactor = 50);

grant select, insert, update, delete on worker_slots to sales_data_api;
