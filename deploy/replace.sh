#!/bin/sh
# Replaces all containers of api and worker by new ones (of a new image or other settings) without a failed request: runs the
# migrations, starts as many new containers as there are old ones, waits until they are healthy, then stops the old ones.
# If a new one does not become healthy, removes the new ones and leaves the old ones running.
# The logs of the old containers are kept in the folder LOGS. A proxy that started before its file was changed is started again.
# Run it where `docker compose up` was run. COMPOSE is the command for compose.
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

$compose run --rm migrate
replace api
replace worker

proxy=$($compose ps -q proxy)
if [ -n "$proxy" ]; then
  started=$(docker inspect --format '{{.State.StartedAt}}' "$proxy")
  if [ "$(date -r deploy/haproxy.cfg +%s)" -gt "$(date -d "$started" +%s)" ]; then
    $compose restart proxy
    echo 'proxy: started again, because deploy/haproxy.cfg has changed'
  fi
fi
