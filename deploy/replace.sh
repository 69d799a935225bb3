#!/bin/sh
# Replaces all containers of api and worker by new ones (of a new image or other settings) without a failed request: runs the
# migrations, starts as many new containers as there are old ones, waits until they are healthy, then stops the old ones.
# If a new one does not become healthy, removes the new ones and leaves the old ones running.
# The logs of the old containers are kept in the folder LOGS. The proxy is started again if its file or certificate is newer.
# Run it where `docker compose up` was run. COMPOSE is the command for compose. Arguments: the services, if not all three.
set -eu
compose=${COMPOSE:-docker compose}
logs=${LOGS:-logs}

replace() { # SERVICE
  old=$($compose ps -q "$1")
  count=$(echo "$old" | wc -w)
  $compose up -d --no-deps --no-recreate --scale "$1=$((count * 2))" "$1"
  new=$($compose ps -q "$1" | grep -vxF "$old")
  for container in $new; do
    wait_healthy "$container" || give_up "$1" "$container"
  done
  for container in $old; do
    docker stop -t 60 "$container" >/dev/null
    (umask 077 && mkdir -p "$logs" && docker logs -t "$container" >"$logs/$1-$container.log" 2>&1)
    docker rm "$container" >/dev/null
  done
  echo "$1: $count replaced"
}

wait_healthy() { # CONTAINER
  for _ in $(seq "${PATIENCE:-120}"); do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" != healthy ] || return 0
    sleep 1
  done
  return 1
}

give_up() { # SERVICE CONTAINER
  docker logs --tail 20 "$2" >&2
  echo "$1: a new container did not become healthy in time; its last lines are above. The old containers still run." >&2
  # shellcheck disable=SC2086 # one word for each container
  docker rm -f $new >/dev/null
  exit 1
}

renew_proxy() {
  [ -n "$($compose ps -q proxy)" ] || return 0
  # A new container if compose.yaml or .env says something else of it. Its files are read only when it starts.
  $compose up -d --no-deps proxy
  proxy=$($compose ps -q proxy)
  started=$(date -d "$(docker inspect --format '{{.State.StartedAt}}' "$proxy")" +%s)
  for file in $(docker inspect --format '{{range .Mounts}}{{.Source}} {{end}}' "$proxy"); do
    if [ -f "$file" ] && [ "$(date -r "$file" +%s)" -gt "$started" ]; then
      $compose restart proxy
      echo "proxy: started again, because $file has changed"
      return
    fi
  done
}

[ $# -gt 0 ] || set -- api worker proxy
$compose run --rm migrate
for service; do
  if [ "$service" = proxy ]; then renew_proxy; else replace "$service"; fi
done
