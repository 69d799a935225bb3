-- no-transaction
-- oldest release: 1.1.0
-- A change, and the timeline of a record, tell which jobs have taken back what. Most jobs of a customer are no undos.

create index concurrently if not exists jobs_undos on jobs (customer_id, (request ->> 'undo_of')) where type = 'undo';
