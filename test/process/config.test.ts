import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ConfigError, describeConfig, parseConfig, publicUrl } from '../../src/process/config.ts';
import { temporaryFolder } from '../setup/at-end.ts';

const folder = await temporaryFolder();

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
    ...['xyz', 'true', '1', '10.0.0.0/33', '10.0.0.0/255.0.0.0', '::/0', '0.0.0.0/0', 'constructor', ''].map(
      (bad) => ['TRUST_PROXY', `10.0.0.1,${bad}`, 'element 2 must be an IP address'] satisfies [string, string, string],
    ),
    ['VERIFY_DNS_SERVERS', '1.1.1.1,999.1.1.1:53', 'element 2 must be an IP address'],
    ['DATABASE_URL', 'postgres://user:a#b@db/sales', 'write # / ? @ : and % in a password as %23'],
    ['MIGRATION_DATABASE_URL', 'postgres://user:pass@:x/sales', 'must be a URL such as postgres://'],
    ['ELASTICSEARCH_URL', 'http://a:9200,http://b:port', 'element 2 must be a URL'],
    ['REDIS_URL', 'redis://[bad', 'must be a URL such as redis://'],
    ['PUBLIC_URL', 'https://:0', 'must be a URL'],
    ['DATABASE_URL', 'postgres://user:a%00b@db/sales', 'must be a URL such as postgres://'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=b,c', 'element 2 must be a header'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'a=b%0d%0ac', 'element 1 must be a header'],
  ];
  test.each(wrong)('%s=%s is rejected', (name, value, text) => {
    const faults = faultsOf({ [name]: value });
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(new RegExp(`^${name}: `));
    expect(faults[0]).toContain(text);
  });

  const right: [string, string][] = [
    ['CORS_ORIGINS', 'https://a.example.com, http://localhost:8080'],
    ['VERIFY_DNS_SERVERS', '1.1.1.1,8.8.8.8:53,[2606:4700::1111]:53,2606:4700::1111'],
    ['DATABASE_URL', 'postgres://user:a%23b@db1:5432,db2:5433/sales?sslmode=require'],
    ['ELASTICSEARCH_URL', 'http://elastic:secret@a:9200,https://b'],
    ['REDIS_URL', 'rediss://user:a%25b@[::1]:6379/2'],
    ['TRUST_PROXY', 'loopback, linklocal,uniquelocal,10.0.0.1,10.0.0.0/8,fd00::/8, ::1'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'x-tenant=a%20b%3B, authorization=Basic YTpi=='],
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

test.each([
  [{}, 'http://127.0.0.1:3000'],
  [{ HOST: '::1', PORT: '80' }, 'http://[::1]:80'],
  [{ PUBLIC_URL: 'https://example.com/sales/' }, 'https://example.com/sales'],
])('with %o, callers reach the service at %s', (environment, url) => {
  expect(publicUrl(parseConfig(environment))).toBe(url);
});

describe('secrets', () => {
  async function fileWith(text: string | Buffer): Promise<string> {
    const path = join(folder, randomUUID());
    await writeFile(path, text);
    return path;
  }

  test.each([
    ['DATABASE_URL', 'postgres://u:p@db/sales'],
    ['ELASTICSEARCH_URL', 'http://elastic:secret@search:9200'],
    ['REDIS_URL', 'redis://:secret@redis'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'https://user:secret@collector'],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'authorization=Bearer secret'],
  ])('%s can come from a file, with or without a line break at its end', async (name, value) => {
    for (const end of ['', '\n', '\r\n'])
      expect(parseConfig({ [`${name}_FILE`]: await fileWith(value + end) })).toMatchObject({ [name]: value });
  });

  test('in files are reported if the file is missing, unreadable or empty, or the variable is set too', async () => {
    const faults = faultsOf({
      DATABASE_URL_FILE: join(folder, 'none'),
      MIGRATION_DATABASE_URL_FILE: folder,
      REDIS_URL_FILE: await fileWith('\n'),
      ELASTICSEARCH_API_KEY_FILE: await fileWith('one'),
      ELASTICSEARCH_API_KEY: 'two',
    });
    expect(faults).toEqual([
      'DATABASE_URL_FILE: the file cannot be read (ENOENT)',
      'MIGRATION_DATABASE_URL_FILE: the file cannot be read (EISDIR)',
      'ELASTICSEARCH_API_KEY_FILE: ELASTICSEARCH_API_KEY is set too; set only one of them',
      'REDIS_URL_FILE: the file is empty',
    ]);
  });

  test('in files are checked like other values and not shown; files that never end, or are too large or no text, are refused', async () => {
    const fault = (path: string) => faultsOf({ ELASTICSEARCH_API_KEY_FILE: path })[0];
    const largest = 'x'.repeat(64 * 1024);
    expect(faultsOf({ DATABASE_URL_FILE: await fileWith('mysql://hunter2@db') })).toEqual([
      expect.stringMatching(/^DATABASE_URL: must match(?!.*hunter2)/),
    ]);
    expect(fault('/dev/zero')).toBe('ELASTICSEARCH_API_KEY_FILE: must be a regular file, not a pipe or a device');
    expect(fault(await fileWith(`${largest}x`))).toBe('ELASTICSEARCH_API_KEY_FILE: the file is larger than 64 KiB');
    expect(fault(await fileWith(largest))).toBeUndefined();
    expect(fault(await fileWith('a\0b'))).toBe('ELASTICSEARCH_API_KEY_FILE: the file contains a NUL character');
    expect(fault(await fileWith(Buffer.from([0x61, 0xff])))).toBe(
      'ELASTICSEARCH_API_KEY_FILE: the file is not valid UTF-8',
    );
  });

  const awkward = ' @/#%41:?\'"$\\+&=ä[]` ';
  const urls: [string, string][] = [
    ['postgres://owner@db:5432/sales', 'postgres://owner:%@db:5432/sales'],
    ['postgres://owner:old@a:1,b:2/sales?sslmode=require', 'postgres://owner:%@a:1,b:2/sales?sslmode=require'],
    ['postgres:///sales', 'postgres://:%@/sales'],
  ];
  test.each(urls)('a password of its own replaces the one in %s', (given, expected) => {
    const config = parseConfig({ DATABASE_URL: given, DATABASE_PASSWORD: awkward });
    expect(config.DATABASE_URL).toBe(expected.replace('%', () => encodeURIComponent(awkward)));
  });

  test('a password without its URL is a fault', () => {
    expect(faultsOf({ DATABASE_PASSWORD: 'x', REDIS_PASSWORD: 'x', MIGRATION_DATABASE_PASSWORD: 'x' })).toEqual([
      'DATABASE_PASSWORD: is set without DATABASE_URL',
      'MIGRATION_DATABASE_PASSWORD: is set without MIGRATION_DATABASE_URL',
      'REDIS_PASSWORD: is set without REDIS_URL',
    ]);
  });
});

test('a report shows what is set and from where, what does not exist and what has no effect, without secrets', async () => {
  const file = join(folder, 'password');
  await writeFile(file, 'of-the-file');
  const report = describeConfig({
    PATH: '/bin',
    PORT: '4000',
    DATABASE_URL: 'postgres://service:in-the-url@db/x',
    DATABASE_PASSWORD_FILE: file,
    RATE_LIMITS: 'off',
    RATE_LIMIT_DEFAULT: '3',
    RATE_LIMIT_DEFUALT: '3',
    ELASTICSEARCH_SHARDS: '2',
  });
  const of = (name: string) => report.settings.find((one) => one.name === name);
  expect([of('PORT'), of('DATABASE_URL'), of('DATABASE_PASSWORD'), of('HOST'), of('REDIS_URL')]).toEqual([
    { name: 'PORT', value: '4000', from: 'environment' },
    { name: 'DATABASE_URL', value: '(secret)', from: 'environment' },
    { name: 'DATABASE_PASSWORD', value: '(secret)', from: 'file' },
    { name: 'HOST', value: '127.0.0.1', from: 'default' },
    { name: 'REDIS_URL', value: null, from: 'not set' },
  ]);
  expect(report.unknown).toEqual(['RATE_LIMIT_DEFUALT']);
  expect(report.without_effect.map(({ name }) => name)).toEqual(['ELASTICSEARCH_SHARDS', 'RATE_LIMIT_DEFAULT']);
  for (const secret of ['in-the-url', 'of-the-file']) expect(JSON.stringify(report)).not.toContain(secret);
});
