import { describe, expect, test } from 'vitest';
import { ConfigError, parseConfig } from '../src/config.ts';

/** Returns the faults of an environment, one for each variable, or none if it is valid. */
function faultsOf(environment: Record<string, string>): string[] {
  try {
    parseConfig(environment);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
}

describe('whole-number variables', () => {
  test.each(['1.5', '1e3', '0x10', '5 credits', ' '])('reject %j', (text) => {
    expect(faultsOf({ UNLOCK_COST: text })).toEqual(['UNLOCK_COST: must be a whole number from 0 to 10000']);
  });

  test('accept digits', () => {
    expect(parseConfig({ UNLOCK_COST: '3', PORT: '0' })).toMatchObject({ UNLOCK_COST: 3, PORT: 0 });
  });
});

describe('lists and URLs are checked at the start', () => {
  const wrong: [string, string, string][] = [
    ['CORS_ORIGINS', 'foo', 'element 1 must be an origin'],
    ['CORS_ORIGINS', 'https://a.example.com,https://b.example.com/path', 'element 2 must be an origin'],
    ['CORS_ORIGINS', 'https://A.example.com', 'element 1 must be an origin'],
    ['CORS_ORIGINS', 'https://a.example.com:443', 'element 1 must be an origin'],
    ['TRUST_PROXY', 'xyz', 'element 1 must be an IP address'],
    ['VERIFY_DNS_SERVERS', '1.2.3', 'element 1 must be an IP address'],
    ['VERIFY_DNS_SERVERS', '1.1.1.1,999.1.1.1:53', 'element 2 must be an IP address'],
    ['DATABASE_URL', 'postgres://user:a#b@db/sales', 'write # / ? @ : and % in a password as %23'],
    ['DATABASE_URL', 'postgres://user:a%b@db/sales', 'write # / ? @ : and % in a password as %23'],
    ['MIGRATION_DATABASE_URL', 'postgres://user:pass@:x/sales', 'must be a URL such as postgres://'],
    ['ELASTICSEARCH_URL', 'http://a:9200,http://b:port', 'element 2 must be a URL'],
    ['PUBLIC_URL', 'https://:0', 'must be a URL'],
  ];
  test.each(wrong)('%s=%s is rejected', (name, value, text) => {
    const faults = faultsOf({ [name]: value });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(new RegExp(`^${name}: `));
    expect(faults[0]).toContain(text);
  });

  const right: [string, string][] = [
    ['CORS_ORIGINS', 'https://a.example.com, http://localhost:8080'],
    ['CORS_ORIGINS', 'chrome-extension://abcdefgh'],
    ['VERIFY_DNS_SERVERS', '1.1.1.1,8.8.8.8:53,[2606:4700::1111]:53,2606:4700::1111'],
    ['DATABASE_URL', 'postgres://user:a%23b@db1:5432,db2:5433/sales?sslmode=require'],
    ['ELASTICSEARCH_URL', 'http://elastic:secret@a:9200,https://b'],
    ['TRUST_PROXY', '10.0.0.0/8,loopback'],
  ];
  test.each(right)('%s=%s is accepted', (name, value) => {
    expect(faultsOf({ [name]: value })).toEqual([]);
  });

  test('all faults are reported at once, without values', () => {
    const secret = 'hunter2';
    const faults = faultsOf({ DATABASE_URL: `postgres://u:${secret}#@db/x`, CORS_ORIGINS: secret, PORT: secret });
    expect(faults.map((fault) => fault.split(':')[0])).toEqual(['PORT', 'DATABASE_URL', 'CORS_ORIGINS']);
    expect(faults.join('\n')).not.toContain(secret);
  });
});
