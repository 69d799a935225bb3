/**
 * Files of `make test-all`: kills, faults, peers that are slow or gone, large data, generated code, and whatever needs a server or
 * program beyond PostgreSQL and a browser. `make test` runs all others.
 */
export const testAll: readonly string[] = [
  'test/{backup,chaos,clients,messy,model,upgrade}/**/*.test.ts',
  'test/{docs,faults,overload,proxies}.test.ts',
  'test/catalog/elasticsearch/*.test.ts',
  'test/commands/{demo,privacy.elasticsearch}.test.ts',
  'test/contract/{clients,fuzz,hostile-bodies}.test.ts',
  'test/database/{db,driver,migrate}.test.ts',
  'test/database/{session-settings,citus/*}.test.ts',
  'test/embedded-postgres/server.test.ts',
  'test/files/{hostile-files,linear-readers}.test.ts',
  'test/pages/browser.test.ts',
  'test/plugins/rate-limits.redis.test.ts',
  'test/process/metrics.test.ts',
  'test/queries/{plans,plans-after-load}.test.ts',
  'test/queries/records/search-terms.test.ts',
  'test/routes/racing.test.ts',
  'test/tracing/traces.test.ts',
];
