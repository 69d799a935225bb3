#!/bin/sh
# Run once by the postgres image in an empty data folder: the owner of the database, who migrates, and the login of the
# service, which has the rights of sales_data_api and no others. psql reads the passwords from its environment, because
# all users of the machine can see its arguments.
set -eu
[ -z "${OWNER_PASSWORD_FILE:-}" ] || OWNER_PASSWORD=$(cat "$OWNER_PASSWORD_FILE")
[ -z "${SERVICE_PASSWORD_FILE:-}" ] || SERVICE_PASSWORD=$(cat "$SERVICE_PASSWORD_FILE")
export OWNER_PASSWORD SERVICE_PASSWORD
psql -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv owner_password OWNER_PASSWORD
\getenv service_password SERVICE_PASSWORD
create role sales_data_api nologin;
create role sales_owner login password :'owner_password';
create role sales_service login password :'service_password' in role sales_data_api;
grant sales_data_api to sales_owner;
create database sales_data_api owner sales_owner encoding 'UTF8' template template0;
SQL
