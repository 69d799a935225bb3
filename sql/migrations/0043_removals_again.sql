-- oldest release: 1.0.0
-- A person can be erased again: after the first erasure was lifted, and the person was imported anew.

grant update on removals to sales_data_api;
