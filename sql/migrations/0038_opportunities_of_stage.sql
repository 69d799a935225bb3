-- no-transaction
-- oldest release: 1.0.0
-- The newest opportunities of a stage are found without a look at newer ones of other stages.

create index concurrently if not exists opportunities_of_stage on opportunities (customer_id, stage_id, id);
drop index concurrently if exists opportunities_stage;
