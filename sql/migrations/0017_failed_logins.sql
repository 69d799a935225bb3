-- Failed logins, counted by account, day (UTC), reason and address. audit_events would get a row for each attempt, and anybody
-- can make attempts. customer_id and user_id are zeros where there is no such account. The address is empty in the row that
-- counts the attempts from all further addresses of that day.
create table failed_logins (
  customer_id uuid           not null,
  user_id     uuid           not null,
  day         date           not null,
  reason      text           not null,
  address     text           not null,
  id          uuid           not null default uuidv7(),
  attempts    integer        not null default 1,
  first_at    timestamptz(3) not null default clock_timestamp(),
  last_at     timestamptz(3) not null default clock_timestamp(),
  constraint failed_logins_pkey primary key (customer_id, user_id, day, reason, address)
) with (fillfactor = 50);

grant select, insert, update on failed_logins to sales_data_api;
