-- oldest release: 1.1.0
-- Keys with the scope webhooks:manage manage webhook endpoints. When a key is revoked, the endpoints that it made are disabled.

alter table webhook_endpoints add column api_key_id uuid;
comment on column webhook_endpoints.api_key_id is 'The key that made the endpoint. Null: a user, or the command line.';
alter table webhook_endpoints drop constraint webhook_endpoints_reason_known;
alter table webhook_endpoints add constraint webhook_endpoints_reason_known
  check (disabled_reason in ('gone', 'failing', 'revoked'));
