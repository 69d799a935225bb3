-- oldest release: 1.0.0
-- Tells once for each grant that credits are low. Grants of older releases are not told of.

alter table credit_balances add column low_of bigint;
comment on column credit_balances.low_of is
  'Credits of the last grant, until the event credits.low was recorded for it: when less than a tenth of them is available.';
