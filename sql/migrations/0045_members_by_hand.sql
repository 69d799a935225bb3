-- no-transaction
-- oldest release: 1.1.0
-- Memberships by rule are removed. Partial indexes find deleted companies and lists, and lists to count.

delete from list_members where not by_hand;
create index concurrently if not exists companies_deleted on companies (deleted_at) where deleted_at is not null;
create index concurrently if not exists lists_deleted on lists (deleted_at) where deleted_at is not null;
create index concurrently if not exists lists_to_count on lists (customer_id) where is_count_due;
