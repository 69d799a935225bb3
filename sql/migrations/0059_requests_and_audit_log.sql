-- oldest release: 1.1.0
-- The request that made a job or import: the log lines of its workers name it.
alter table jobs add column request_id text;
alter table imports add column request_id text;

-- Writes an event of the audit log to the log of PostgreSQL, which a restore of the database leaves as it is.
create function log_audit_event(event text, customer_id uuid, user_id uuid, api_key_id uuid, actor text) returns void
language plpgsql
as $$
begin
  raise log 'audit: % customer=% user=% key=% by=%', event, customer_id, user_id, api_key_id, to_json(actor);
end
$$;
