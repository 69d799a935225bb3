-- How many rules a list has, for the limits of a customer: the rules themselves may be many MiB.
alter table lists
  add column rule_count integer generated always as (jsonb_array_length(rules)) stored;

create index lists_with_rules on lists (customer_id, id) include (rule_count) where rule_count > 0;
