#!/bin/sh
# Writes .env for compose.yaml: the settings of .env.example, with random passwords and keys. Never changes a file that is there.
set -eu
cd "$(dirname "$0")/.."
umask 077
if [ -e .env ]; then
  echo '.env is there already; nothing was changed.'
  exit 0
fi
while IFS= read -r line; do
  case $line in
    *_SECRET_KEY=) echo "$line$(head -c 32 /dev/urandom | base64)" ;;
    *_PASSWORD=) echo "$line$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <.env.example >.env.new
mv .env.new .env
echo 'Wrote .env with random passwords and keys. Keep a copy in a safe place.'
