-- The planner knows a table, and the customers in it, as the last analyze saw them. A customer who began after it has one row
-- for all it knows, and is read from end to end where an index would do. By the server's own rule an analyze waits for a
-- tenth of the table to change: in a table of 10,000,000 rows a customer may add 1,000,000 unseen. Here it waits for 5,000
-- rows, and looks once a minute; it reads a sample of 30,000, a second or two.
alter table companies set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table contacts set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table credit_entries set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table job_results set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table jobs set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table list_members set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table opportunities set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table opportunity_contacts set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table opportunity_lines set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table products set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
alter table unlocks set (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);

-- A table that was analysed while it held nothing, as 0012 does on a fresh database, is planned for as if it always would.
-- Of one that was never analysed the planner assumes ten pages.
select pg_clear_relation_stats('public', relname::text)
from pg_class
where relnamespace = 'public'::regnamespace and relkind = 'r' and reltuples = 0;
