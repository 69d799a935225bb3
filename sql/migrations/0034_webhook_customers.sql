-- oldest release: 1.0.0
-- Which customers have, or had, webhook endpoints. In a distributed database the endpoints are on the nodes of their
-- customers. So with this table workers can look for work on each node by itself, while another one is down.

create table webhook_customers (
  customer_id uuid not null,
  constraint webhook_customers_pkey primary key (customer_id)
);
comment on table webhook_customers is
  'The customers that have, or had, webhook endpoints. In a distributed database only the coordinator has it.';

insert into webhook_customers (customer_id)
select distinct customer_id from webhook_endpoints;

grant select, insert on webhook_customers to sales_data_api;
