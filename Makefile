.DEFAULT_GOAL := help
.PHONY: help run env test test-all test-only test-image check chaos model fuzz clients bench pictures schema format clean node_modules

run: node_modules ## start the service on an embedded PostgreSQL, with a demo customer (DATABASE_URL uses your server)
	@echo 'Starting. The log shows warnings only; LOG_LEVEL=info shows every request.'
	@PATH="$$PWD/node_modules/.bin:$$PATH" LOG_LEVEL="$${LOG_LEVEL:-warn}" LOG_FORMAT="$${LOG_FORMAT:-pretty}" \
		NODE_COMPILE_CACHE="$$PWD/node_modules/.cache/compiled" \
		exec node src/cli.ts serve --with-worker --migrate --demo

env: ## write .env with random passwords for compose.yaml, unless it is there
	@deploy/make-env.sh

test: node_modules ## type check, lint, format check, then what holds without faults, on throwaway servers (TEST_SERVERS=embedded|containers)
	@npm run --silent check
	@npm run --silent test

test-all: node_modules ## the other tests: kills, faults, upgrades, backups, Elasticsearch, Citus, generated clients, plans at size
	@npm run --silent client
	@npm run --silent test:all

test-only: node_modules ## the tests of `make test` without the checks
	@npm run --silent test

test-image: node_modules ## build the image and try compose.yaml on a Docker engine
	@npm run --silent test:image

check: node_modules ## type check, lint and format check alone
	@npm run --silent check

chaos: node_modules ## kill and freeze everything under jobs that spend credits, then go through the books (CHAOS_SECONDS=600)
	@CHAOS_SECONDS=$(or $(CHAOS_SECONDS),600) npx vitest run test/chaos

model: node_modules ## random operations by six callers, compared with a model in memory (MODEL_SECONDS=600, SEED=1)
	@SEED=$(or $(SEED),random) MODEL_SECONDS=$(or $(MODEL_SECONDS),600) npx vitest run test/model

fuzz: node_modules ## send 20,000 random requests, made from the OpenAPI document (FUZZ_REQUESTS=20000, SEED=1)
	@SEED=$(or $(SEED),random) FUZZ_REQUESTS=$(or $(FUZZ_REQUESTS),20000) npx vitest run test/contract/fuzz.test.ts

clients: node_modules ## pack the clients for TypeScript and Python into clients/dist
	@mkdir -p clients/dist && cd clients/typescript && npm pack --silent --pack-destination ../dist
	@cd clients/python && python3 generate.py && python3 -m pip wheel --quiet --no-deps --wheel-dir ../dist .

bench: node_modules ## measure, in ratios to ceilings taken in the same run (ONLY=contacts for one suite)
	@npm run --silent bench

pictures: node_modules ## take a picture of every page at /app, in three widths and two colour schemes (PICTURES=folder)
	@npm run --silent pictures

schema: node_modules ## write sql/schema.sql and test/contract anew after a change that was meant
	@npm run --silent schema
	@npm run --silent contract

format: node_modules ## format every source
	@npm run --silent format

clean: ## remove what was installed and the demo's data
	rm -rf node_modules .data

# npm ci only when the lock file changed; the stamp is what npm itself writes.
node_modules: node_modules/.package-lock.json
node_modules/.package-lock.json: package-lock.json
	@# npm of an older Node warns of each package that needs a newer one; they run on the Node that it installs.
	npm ci --loglevel=error --no-audit --no-fund
	@touch $@

help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
