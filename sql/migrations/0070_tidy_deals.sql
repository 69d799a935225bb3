-- oldest release: 1.1.0
-- Imports of products and opportunities analyse and vacuum what they have filled.

grant maintain on products, opportunities, opportunity_lines, opportunity_contacts to sales_data_api;
