-- oldest release: 1.0.0
-- credits.low uses the column of 0024 alone.

alter table credit_balances drop column low_mark;
