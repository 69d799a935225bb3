-- oldest release: 1.0.0
-- Links with which users set their password: an admin makes a user, or a new link, and sends it.

create table password_links (
  customer_id uuid           not null,
  user_id     uuid           not null,
  token_hash  bytea          not null,
  expires_at  timestamptz(3) not null,
  constraint password_links_pkey primary key (customer_id, user_id),
  constraint password_links_hash_key unique (token_hash),
  constraint password_links_hash_is_sha256 check (octet_length(token_hash) = 32),
  constraint password_links_user_fkey foreign key (customer_id, user_id) references users (customer_id, id)
);
comment on table password_links is
  'At most one for a user. It is deleted when it is used, and when the password changes or the user is deactivated.';

grant select, insert, update, delete on password_links to sales_data_api;
