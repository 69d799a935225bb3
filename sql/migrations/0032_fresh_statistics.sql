-- oldest release: 1.0.0
-- A table is analysed after 1,000 changed rows instead of 5,000: a customer's 4,000 companies would not have been noticed.
alter table companies set (autovacuum_analyze_threshold = 1000);
alter table contacts set (autovacuum_analyze_threshold = 1000);
alter table list_members set (autovacuum_analyze_threshold = 1000);
alter table opportunities set (autovacuum_analyze_threshold = 1000);
alter table opportunity_contacts set (autovacuum_analyze_threshold = 1000);
alter table opportunity_lines set (autovacuum_analyze_threshold = 1000);
alter table products set (autovacuum_analyze_threshold = 1000);
-- The worker analyses what an import has changed.
grant maintain on companies, contacts to sales_data_api;
