-- oldest release: 1.1.0
-- The planner expects a twentieth of all rows to be of each customer, as in 0041: before, it read all records of a customer
-- to find one by its external_id.

-- No line ends with a semicolon, because `migrate` would divide the block there.
do $$
declare
  change text := 'alter table %s alter column customer_id set statistics 0'
; assumption text := '
    select pg_restore_attribute_stats(
      ''schemaname'', n.nspname::text, ''relname'', r.relname::text, ''attname'', ''customer_id'', ''inherited'', false,
      ''null_frac'', 0::real, ''avg_width'', 16, ''n_distinct'', 20::real, ''correlation'', 1::real)
    from pg_class r
    join pg_namespace n on n.oid = r.relnamespace
    where r.oid = ''%s''::regclass'
; is_distributed boolean := false
; step text
; relation text
; begin
  if to_regclass('pg_catalog.pg_dist_partition') is not null then
    execute 'select exists (select from pg_dist_partition where logicalrelid = to_regclass(''contacts''))' into is_distributed
; end if
; foreach step in array array[change, assumption] loop
    foreach relation in array array['products', 'opportunities', 'activities'] loop
      if is_distributed then execute format('select count(*) from run_command_on_shards(%L, %L)', relation, step)
;     else execute format(step, relation)
;     end if
;   end loop
; end loop
; end $$;
