-- no-transaction
-- oldest release: 1.1.0
-- Contacts whose phone numbers the filter `search` does not find yet: a worker adds their digits to `folded` and `terms`.
-- The next release drops `contacts_without_terms`, which instances of 1.1.0 use meanwhile.

create index concurrently if not exists contacts_without_phones on contacts (customer_id, id) where (folded ->> 'indexed2') is null;
