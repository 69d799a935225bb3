#!/bin/sh
# Takes a backup into the folder BACKUPS, and removes all but seven: a base backup if PostgreSQL archives its log (WAL), else a
# dump. Prints its path. The folder `metrics` tells the node exporter when. In compose:
#   docker compose exec -T postgres sh <deploy/backup.sh
set -eu
umask 077
export LC_ALL=C PGUSER="${PGUSER:-postgres}"
BACKUPS=${BACKUPS:-/backups}
now=$(date -u +%Y%m%dT%H%M%SZ)
rm -rf "$BACKUPS"/*.unfinished

if [ "$(psql --dbname postgres -Atc 'show archive_mode')" = on ]; then
  backup=$BACKUPS/base-$now
  pg_basebackup --pgdata "$backup.unfinished" --format tar --gzip --wal-method stream --checkpoint fast
  pg_verifybackup --quiet --no-parse-wal "$backup.unfinished"
  mv "$backup.unfinished" "$backup"
  ls -d "$BACKUPS"/base-* | head -n -7 | xargs -r rm -r
  # The log since the oldest base backup, each file of which has 16 MiB, full or not.
  oldest=$(ls -d "$BACKUPS"/base-* | head -n 1)
  first=$(tar -xOzf "$oldest/base.tar.gz" backup_label | sed -n 's/^START WAL LOCATION: .*(file \(.*\))$/\1/p')
  pg_archivecleanup -x .gz "$BACKUPS/wal" "$first"
  find "$BACKUPS/wal" -type f -name '[0-9A-F]*' ! -name '*.gz' -exec gzip -f {} +
else
  backup=$BACKUPS/sales_data_api-$now.dump
  # --statistics, because migrations set what the planner expects (docs/performance.md).
  pg_dump --statistics --format custom --file "$backup.unfinished" sales_data_api
  mv "$backup.unfinished" "$backup"
  ls "$BACKUPS"/*.dump | head -n -7 | xargs -r rm
fi

mkdir -p "$BACKUPS/metrics"
echo "sales_data_backup_finished_seconds $(date +%s)" >"$BACKUPS/metrics/backup.new"
mv "$BACKUPS/metrics/backup.new" "$BACKUPS/metrics/backup.prom"
chmod 755 "$BACKUPS/metrics"
chmod 644 "$BACKUPS/metrics/backup.prom"
echo "$backup"
