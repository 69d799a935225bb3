#!/bin/sh
# Run once by the postgres image in an empty data folder: the owner of the database, who migrates, and the login of the
# service, which has the rights of sales_data_api and no others.
set -eu
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
  -v owner_password="$OWNER_PASSWORD" -v service_password="$SERVICE_PASSWORD" <<'SQL'
create role sales_data_api nologin;
create role sales_owner login password :'owner_password';
create role sales_service login password :'service_password' in role sales_data_api;
grant sales_data_api to sales_owner;
create database sales_data_api owner sales_owner encoding 'UTF8' template template0;
SQL
