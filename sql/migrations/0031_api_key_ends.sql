-- no-transaction
-- oldest release: 1.0.0
-- Finds a customer's live keys, and the keys that ended last, however many ended keys there are.
drop index concurrently if exists api_keys_end;
create index concurrently api_keys_end on api_keys (customer_id, least(revoked_at, expires_at));
