-- Places for jobs in the worker processes that are alive, so that each kind of job shares its places over all processes
-- (src/queries/worker-places.ts). A process inserts its rows when it starts, renews `seen_at` every few seconds and deletes
-- them when it ends. Those of a process that died are ignored, and deleted later.
create table worker_places (
  kind        text           not null,
  process_id  uuid           not null,
  number      smallint       not null,
  -- The customer whose job is at work here; null while the place is free.
  customer_id uuid,
  seen_at     timestamptz(3) not null default clock_timestamp(),
  constraint worker_places_pkey primary key (kind, process_id, number)
) with (fillfactor = 50);

grant select, insert, update, delete on worker_places to sales_data_api;
