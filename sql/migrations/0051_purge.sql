-- oldest release: 1.1.0
-- A record that is removed for good loses its values in the journal; its events stay.

grant update (before, after) on journal to sales_data_api;
