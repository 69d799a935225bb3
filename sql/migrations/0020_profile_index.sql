-- no-transaction
-- oldest release: 1.0.0
-- Finds contacts by their profile URL. The index has a hash, because a URL can be longer than an index entry may be.

create index concurrently if not exists contacts_profnet_url
  on contacts (customer_id, hashtextextended((folded ->> 'profnet_url') collate "C", 0), id) where profnet_url is not null;
