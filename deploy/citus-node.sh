#!/bin/sh
# Entry point of a PostgreSQL container of compose.citus.yaml. The nodes of the cluster log in to each other with the passwords
# of the environment, which libpq reads from a file. It is written at each start, so a changed password needs only a restart.
set -eu
: "${POSTGRES_PASSWORD:?}" "${OWNER_PASSWORD:?}" "${SERVICE_PASSWORD:?}"
PGPASSFILE=/run/citus-passwords
export PGPASSFILE

line() { printf '*:*:*:%s:%s\n' "$1" "$(printf '%s' "$2" | sed 's/[\\:]/\\&/g')"; }
(umask 077 && {
  line postgres "$POSTGRES_PASSWORD"
  line sales_owner "$OWNER_PASSWORD"
  line sales_data_api "$SERVICE_PASSWORD"
} >"$PGPASSFILE")
chown postgres "$PGPASSFILE"
exec docker-entrypoint.sh "$@"
