#!/bin/sh
# Writes what compose.yaml needs and is not there yet: .env, and a file with a random value for each secret in the folder
# `secrets`. Secrets that .env of release 1.0.0 holds are moved to their files. Never changes a secret.
set -eu
cd "$(dirname "$0")/.."
umask 077
mkdir -p secrets
[ -e .env ] || cp .env.example .env

secret() { # FILE VARIABLE RANDOM
  [ ! -e "secrets/$1" ] || return 0
  value=$(sed -n "s/^$2=//p" .env | tail -n 1 | sed "s/^'\(.*\)'\$/\1/")
  printf '%s' "${value:-$3}" >"secrets/$1"
  # The users of the containers read it. On this machine, nobody else can enter the folder.
  chmod 444 "secrets/$1"
  echo "Wrote secrets/$1."
}

random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres owner service grafana; do
  secret "$name-password" "$(echo "$name" | tr '[:lower:]' '[:upper:]')_PASSWORD" "$(random)"
done
secret webhook-secret-key WEBHOOK_SECRET_KEY "$(head -c 32 /dev/urandom | base64)"

grep -vE '^((POSTGRES|OWNER|SERVICE|GRAFANA)_PASSWORD|WEBHOOK_SECRET_KEY)=' .env >.env.new || true
grep -q '^SECRETS=' .env.new || echo 'SECRETS=./secrets' >>.env.new
mv .env.new .env
echo 'Keep a copy of .env and of the folder secrets in a safe place.'
