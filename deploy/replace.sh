#!/bin/sh
# Replaces all containers of api and worker by new ones (of a new image or other settings) without a failed request: runs the
# migrations, starts as many new containers as there are old ones, waits until they are healthy, then stops the old ones.
# Run it where `docker compose up` was run. COMPOSE is the command for compose.
set -eu
compose=${COMPOSE:-docker compose}

replace() { # SERVICE
  old=$($compose ps -q "$1")
  count=$(echo "$old" | wc -w)
  $compose up -d --no-deps --no-recreate --scale "$1=$((count * 2))" "$1"
  for container in $($compose ps -q "$1"); do
    case $old in *"$container"*) ;; *) wait_healthy "$container" ;; esac
  done
  for container in $old; do
    docker stop -t 60 "$container" >/dev/null
    docker rm "$container" >/dev/null
  done
  echo "$1: $count replaced"
}

wait_healthy() { # CONTAINER
  for _ in $(seq 120); do
    [ "$(docker inspect --format '{{.State.Health.Status}}' "$1")" != healthy ] || return 0
    sleep 1
  done
  echo "$1 did not become healthy within two minutes: see docker logs $1. The old containers still run." >&2
  exit 1
}

$compose run --rm migrate
replace api
replace worker
