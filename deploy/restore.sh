#!/bin/sh
# Puts the base backup BACKUP into PGDATA. At its next start, PostgreSQL recovers it with the log (WAL) of the folder BACKUPS, up
# to the moment UNTIL (such as 2026-11-22 14:03:00+00), without UNTIL to the end. PostgreSQL must not run. The data that was
# in PGDATA stays beside it, and what it had not archived yet of its log is archived.
set -eu
export LC_ALL=C
: "${PGDATA:?}" "${BACKUP:?}"
BACKUPS=${BACKUPS:-/backups}
UNTIL=${UNTIL:+$(date -u -d "$UNTIL" '+%F %T.%6N+00')} # PostgreSQL does not take every form
if [ -e "$PGDATA" ]; then
  for file in "$PGDATA"/pg_wal/[0-9A-F]*; do
    name=$(basename "$file")
    [ -e "$BACKUPS/wal/$name" ] || [ -e "$BACKUPS/wal/$name.gz" ] || cp -p "$file" "$BACKUPS/wal/"
  done
  mv "$PGDATA" "$PGDATA-before-$(date -u +%Y%m%dT%H%M%SZ)"
fi
mkdir -p "$(dirname "$PGDATA")"
mkdir -m 0700 "$PGDATA"
tar -xzf "$BACKUP/base.tar.gz" -C "$PGDATA"
tar -xzf "$BACKUP/pg_wal.tar.gz" -C "$PGDATA/pg_wal"
cat >>"$PGDATA/postgresql.auto.conf" <<END
archive_mode = off
restore_command = 'cp "$BACKUPS/wal/%f" "%p" 2>/dev/null || gzip -dc "$BACKUPS/wal/%f.gz" 2>/dev/null >"%p"'
recovery_target_time = '$UNTIL'
recovery_target_action = promote
END
touch "$PGDATA/recovery.signal"
[ "$(id -u)" != 0 ] || chown -R postgres "$PGDATA" "$BACKUPS/wal"
