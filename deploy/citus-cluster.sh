#!/bin/sh
# Makes a Citus cluster of the PostgreSQL servers COORDINATOR and WORKERS (HOST:PORT, separated by spaces), for the database
# sales_data_api. Needs the superuser in POSTGRES_USER and PGPASSWORD. Run it again to add workers: what is there stays as it
# is. psql reads the passwords from its environment, because all users of the machine can see its arguments.
set -eu
[ -z "${PGPASSWORD_FILE:-}" ] || export PGPASSWORD="$(cat "$PGPASSWORD_FILE")"
[ -z "${OWNER_PASSWORD_FILE:-}" ] || OWNER_PASSWORD=$(cat "$OWNER_PASSWORD_FILE")
[ -z "${SERVICE_PASSWORD_FILE:-}" ] || SERVICE_PASSWORD=$(cat "$SERVICE_PASSWORD_FILE")
: "${POSTGRES_USER:=postgres}" "${COORDINATOR:?}" "${WORKERS:?}" "${OWNER_PASSWORD:?}" "${SERVICE_PASSWORD:?}"
export OWNER_PASSWORD SERVICE_PASSWORD

on() { # HOST:PORT DATABASE: runs the SQL of standard input
  psql -X -q -v ON_ERROR_STOP=1 -v host="${1%:*}" -v port="${1##*:}" \
    --host "${1%:*}" --port "${1##*:}" --username "$POSTGRES_USER" --dbname "$2" >/dev/null
}

for node in $COORDINATOR $WORKERS; do
  on "$node" postgres <<'SQL'
select 'create database sales_data_api encoding ''UTF8'' template template0'
where not exists (select from pg_database where datname = 'sales_data_api') \gexec
SQL
  on "$node" sales_data_api <<'SQL'
set client_min_messages = warning;
create extension if not exists citus;
SQL
done

on "$COORDINATOR" sales_data_api <<'SQL'
select citus_set_coordinator_host(:'host', :port);
SQL
for node in $WORKERS; do
  on "$COORDINATOR" sales_data_api <<SQL
select citus_add_node('${node%:*}', ${node##*:});
SQL
done

# In this database, so that Citus creates the roles on all nodes. It connects to the workers as sales_data_api and sales_owner.
on "$COORDINATOR" sales_data_api <<'SQL'
\getenv owner_password OWNER_PASSWORD
\getenv service_password SERVICE_PASSWORD
select format('create role %I', name)
from unnest(array['sales_data_api', 'sales_owner', 'sales_service']) name
where not exists (select from pg_roles where rolname = name) \gexec
alter role sales_data_api login password :'service_password';
alter role sales_owner login password :'owner_password';
alter role sales_service login password :'service_password';
grant sales_data_api to sales_owner with admin option;
grant sales_data_api to sales_service;
alter database sales_data_api owner to sales_owner;
SQL
