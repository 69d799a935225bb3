#!/bin/sh
# Entry point of a PostgreSQL container of compose.citus.yaml. The nodes of the cluster log in to each other with the passwords
# of the secrets, which libpq reads from one file. It is written at each start, so a changed password needs only a restart.
set -eu
PGPASSFILE=/tmp/citus-passwords
export PGPASSFILE

line() { printf '*:*:*:%s:%s\n' "$1" "$(sed 's/[\\:]/\\&/g' "$2")"; } # LOGIN FILE
(umask 077 && {
  line postgres "$POSTGRES_PASSWORD_FILE"
  line sales_owner "$OWNER_PASSWORD_FILE"
  line sales_data_api "$SERVICE_PASSWORD_FILE"
} >"$PGPASSFILE")
chown postgres "$PGPASSFILE"
exec docker-entrypoint.sh "$@"
