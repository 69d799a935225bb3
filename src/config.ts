import { isIP } from 'node:net';
import { Type, type Static, type TProperties } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { parseRanges, rangeSyntax } from './addresses.ts';

const port = (description: string, value: number) =>
  Type.Integer({ minimum: 0, maximum: 65535, default: value, description });
const milliseconds = (description: string, value: number) =>
  Type.Integer({ minimum: 1, maximum: 3_600_000, default: value, description: `${description} (ms)` });
const count = (description: string, value: number) =>
  Type.Integer({ minimum: 1, maximum: 10_000, default: value, description });
const credits = (item: string) =>
  Type.Integer({ minimum: 0, maximum: 10_000, default: 1, description: `credits that ${item} costs` });
const perMinute = (description: string, value: number) =>
  Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    default: value,
    description: `${description} per minute; 0 turns this limit off`,
  });
const url = (description: string, pattern: string) => Type.Optional(Type.String({ pattern, description }));

/** Every environment variable the service reads: its type, default and meaning. The README's table is made from it. */
export const ConfigSchema = Type.Object({
  HOST: Type.String({
    minLength: 1,
    default: '127.0.0.1',
    description: 'address to listen on; `0.0.0.0` in the image',
  }),
  PORT: port('port to listen on; 0 takes a free one', 3000),
  METRICS_PORT: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 65535,
      description:
        'port for `/metrics`, `/healthz` and `/readyz`; without it `serve` has them on `PORT`, and `work` does not listen',
    }),
  ),
  PUBLIC_URL: url('address under which callers reach the service, shown in the OpenAPI document', '^https?://[^\\s]+$'),
  DATABASE_URL: url(
    'PostgreSQL 18 or newer, for the service; without it an embedded server is started in `DATA_DIR`',
    '^postgres(ql)?://[^\\s]+$',
  ),
  MIGRATION_DATABASE_URL: url(
    'the same database as its owner, for `migrate`; `DATABASE_URL` when absent',
    '^postgres(ql)?://[^\\s]+$',
  ),
  DATA_DIR: Type.String({
    minLength: 1,
    default: '.data',
    description: 'where the embedded PostgreSQL keeps its data',
  }),
  DATABASE_LOOKUP_CONNECTIONS: count('pipelined connections for short reads', 2),
  DATABASE_CREDENTIAL_CONNECTIONS: count('pipelined connections for looking up keys and sessions', 1),
  DATABASE_SEARCH_CONNECTIONS: count('connections for filtered reads; one customer alone gets half of them', 12),
  DATABASE_TRANSACTION_CONNECTIONS: count('connections for transactions; one customer alone gets half of them', 20),
  DATABASE_QUEUE_LENGTH: count(
    'requests that may wait for a connection, per kind; one customer alone gets half of these places; one more is answered 503',
    500,
  ),
  DATABASE_QUEUE_MS: milliseconds(
    'longest time that a request waits for connections before 503, all waits together',
    1_000,
  ),
  REQUEST_TIMEOUT_MS: milliseconds('longest time for one request before 503, its waits included', 10_000),
  STATEMENT_TIMEOUT_MS: milliseconds('longest run of one SQL statement before 503', 10_000),
  OVERLOAD_MS: Type.Integer({
    minimum: 0,
    maximum: 60_000,
    default: 1_000,
    description: 'stall of the event loop that counts as overload, answered 503 (ms); 0 turns it off',
  }),
  ELASTICSEARCH_URL: url(
    'nodes of the search cluster that keeps the prospect catalog, comma-separated; without it PostgreSQL keeps it',
    '^https?://[^\\s,]+(,https?://[^\\s,]+)*$',
  ),
  ELASTICSEARCH_API_KEY: Type.Optional(
    Type.String({ minLength: 1, description: 'how to log in there, unless the URL says' }),
  ),
  ELASTICSEARCH_INDEX: Type.String({
    pattern: '^[a-z][a-z0-9_-]{0,99}$',
    default: 'sales-data-prospects',
    description: 'name of the catalog in the search cluster; what belongs to it begins so',
  }),
  ELASTICSEARCH_SHARDS: Type.Integer({
    minimum: 1,
    maximum: 1024,
    default: 1,
    description: 'parts a new index is split into',
  }),
  ELASTICSEARCH_REPLICAS: Type.Integer({
    minimum: 0,
    maximum: 16,
    default: 1,
    description: 'copies of each part of a new index, beside the first',
  }),
  ELASTICSEARCH_READS: count('reads of the search cluster under way at once; one customer alone gets half of them', 8),
  ELASTICSEARCH_TIMEOUT_MS: milliseconds(
    'longest wait for an answer of a node of the search cluster before 503',
    4_000,
  ),
  ELASTICSEARCH_BULK_TIMEOUT_MS: milliseconds('longest wait for one write of a load before it is tried again', 60_000),
  PROSPECT_MASKING: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description: 'whether e-mails and phones of prospects are masked until the customer has unlocked them',
  }),
  UNLOCK_COST: credits('an unlocked prospect'),
  VERIFY_COST: credits('a verified e-mail address'),
  VERIFY_DNS_SERVERS: Type.Optional(
    Type.String({
      pattern: '^[0-9a-fA-F.:\\[\\]]+(,[0-9a-fA-F.:\\[\\]]+)*$',
      description:
        "DNS servers that are asked where mail goes, `address` or `address:port`, comma-separated; else the system's",
    }),
  ),
  VERIFY_DNS_TIMEOUT_MS: milliseconds('longest wait for an answer of a DNS server before it is asked again', 2_000),
  VERIFY_DNS_TRIES: Type.Integer({
    minimum: 1,
    maximum: 10,
    default: 2,
    description: 'how often each of them is asked',
  }),
  VERIFY_SMTP: Type.Union([Type.Literal('off'), Type.Literal('on')], {
    default: 'off',
    description:
      'whether mail servers are asked for the mailbox (RCPT, no mail is sent); else an address whose domain takes mail is `verified`',
  }),
  VERIFY_SMTP_PORT: port('port of the mail servers', 25),
  VERIFY_SMTP_SENDER: Type.Optional(
    Type.String({
      pattern: '^[!-;=?A-~]+@[A-Za-z0-9.-]+$',
      description: 'whom they are told that mail would be from; nobody (`<>`) when absent',
    }),
  ),
  VERIFY_SMTP_NAME: Type.Optional(
    Type.String({
      pattern: '^[A-Za-z0-9.-]+$',
      description: 'what they are told this machine is called; best the name that its address leads back to',
    }),
  ),
  VERIFY_SMTP_TIMEOUT_MS: milliseconds('longest wait for a connection to them, and for each reply', 10_000),
  VERIFY_DEADLINE_MS: milliseconds(
    'longest time for one address, the wait for its turn apart; then it is `unknown`',
    30_000,
  ),
  VERIFY_CONNECTIONS: count('mailboxes asked for at once, per process', 100),
  VERIFY_DOMAIN_CONNECTIONS: count('mailboxes of one domain asked for at once, over all customers, per process', 2),
  VERIFY_DOMAIN_INTERVAL_MS: Type.Integer({
    minimum: 0,
    maximum: 3_600_000,
    default: 500,
    description: 'shortest time between two beginnings of that (ms); 0: none',
  }),
  VERIFY_PRIVATE_ADDRESSES: Type.Union([Type.Literal('off'), Type.Literal('on')], {
    default: 'off',
    description: 'whether mail servers outside the public net are called too; for tests',
  }),
  LOG_LEVEL: Type.Union(
    (['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const).map((level) => Type.Literal(level)),
    { default: 'info', description: 'least severe level that is logged' },
  ),
  TRUST_PROXY: Type.Optional(
    Type.String({
      minLength: 1,
      description:
        'proxies whose `X-Forwarded-For` is believed: addresses, ranges such as `10.0.0.0/8`, `loopback`, `linklocal` or `uniquelocal`, comma-separated',
    }),
  ),
  MAX_CONNECTIONS: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    default: 2_000,
    description:
      'connections of callers at once, per process; for one more the one that has been idle longest is closed. One address holds no more than remain free',
  }),
  CONNECTION_SILENCE_MS: milliseconds(
    'longest time without a byte of a request or an answer before a connection is closed',
    30_000,
  ),
  CORS_ORIGINS: Type.Optional(
    Type.String({ minLength: 1, description: 'origins that browsers may call from, comma-separated' }),
  ),
  RATE_LIMITS: Type.Union([Type.Literal('on'), Type.Literal('off')], {
    default: 'on',
    description: 'whether requests are limited; `off` turns off every limit below',
  }),
  RATE_LIMIT_DEFAULT: perMinute('requests of one API key', 6_000),
  RATE_LIMIT_PROSPECTS: perMinute('lists and counts of prospects, per API key', 600),
  RATE_LIMIT_JOBS: perMinute('calls that start a job, per API key', 60),
  RATE_LIMIT_KEYS: perMinute('calls of `/api/api-key` and `/api/auth` with a session, per user', 60),
  RATE_LIMIT_LOGIN: perMinute(
    'failed logins of one account from one address (of all accounts three times as many)',
    10,
  ),
  RATE_LIMIT_UNAUTHENTICATED: perMinute('requests from one address that are answered 401', 300),
  REDIS_URL: url(
    'Redis or Valkey server where all instances count requests together; without it each process counts its own',
    '^rediss?://[^\\s]+$',
  ),
  KEY_PREFIX: Type.String({
    pattern: '^[a-z][a-z0-9]{1,15}$',
    default: 'sda',
    description: 'first part of newly issued API keys',
  }),
  SHUTDOWN_MS: milliseconds(
    'longest wait at SIGTERM for requests in hand, and for mail servers that were asked',
    15_000,
  ),
});

/** The parsed environment. Frozen; made once at the start of a command. */
export type Config = Readonly<Static<typeof ConfigSchema>>;

/** The environment does not say what it must; `faults` has a line for every variable at fault, never its value. */
export class ConfigError extends Error {
  readonly faults: string[];

  constructor(faults: string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

/**
 * Reads the environment into a `Config`. An empty variable counts as absent.
 * @throws ConfigError naming every variable at fault at once
 */
export function parseConfig(environment: Record<string, string | undefined>): Config {
  const properties: TProperties = ConfigSchema.properties;
  const given = Object.keys(properties).filter((name) => (environment[name] ?? '') !== '');
  const raw = Object.fromEntries(given.map((name) => [name, read(properties[name]!, environment[name]!)]));
  const parsed = Value.Default(ConfigSchema, raw);
  const faulty = new Set([...Value.Errors(ConfigSchema, parsed)].map((error) => error.path.split('/')[1]!));
  const faults = [
    ...[...faulty].map((name) => `${name}: ${expectation(properties[name]!)}`),
    ...given.filter((name) => !faulty.has(name)).flatMap((name) => faultsOf(name, environment[name]!)),
  ];
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.freeze(parsed as Static<typeof ConfigSchema>);
}

/** Numbers are whole and written in digits: `1.5`, `1e3` and `0x10` stay texts, which the schema refuses. */
const read = (schema: TProperties[string], text: string): string | number =>
  schema['type'] === 'integer' && /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text;

/** Checks of variables that their schema cannot express. Each returns what every wrong element must be. */
const checks: { readonly [name in keyof Config]?: (value: string) => string[] } = {
  DATABASE_URL: databaseUrlFaults,
  MIGRATION_DATABASE_URL: databaseUrlFaults,
  PUBLIC_URL: (value) => (URL.canParse(value) ? [] : ['must be a URL such as https://api.example.com']),
  ELASTICSEARCH_URL: (value) => elementFaults(value, URL.canParse, 'a URL such as http://search:9200'),
  TRUST_PROXY: (value) => parseRanges(value).faults.map((position) => `element ${position} must be ${rangeSyntax}`),
  CORS_ORIGINS: (value) => elementFaults(value, isOrigin, 'an origin such as https://app.example.com, without a path'),
  VERIFY_DNS_SERVERS: (value) => elementFaults(value, isServerAddress, 'an IP address or address:port'),
};

const faultsOf = (name: string, value: string): string[] =>
  (checks[name as keyof Config]?.(value) ?? []).map((fault) => `${name}: ${fault}`);

/** A line for each element of a comma-separated list that is wrong. Never shows the element. */
const elementFaults = (list: string, isValid: (element: string) => boolean, expected: string): string[] =>
  list.split(',').flatMap((element, i) => (isValid(element.trim()) ? [] : [`element ${i + 1} must be ${expected}`]));

/** A password may hold any character, but in a URL some are written as %XX. Several hosts may stand with commas between. */
function databaseUrlFaults(value: string): string[] {
  const oneHost = value.replace(/^([a-z]+:\/\/(?:[^/?#]*@)?[^,/?#]*),[^/?#]*/, '$1');
  const isUrl = URL.canParse(oneHost) && !value.includes('#') && isPercentEncoded(oneHost);
  return isUrl
    ? []
    : [
        'must be a URL such as postgres://user:password@host:5432/database; ' +
          'write # / ? @ : and % in a password as %23 %2F %3F %40 %3A and %25',
      ];
}

function isPercentEncoded(url: string): boolean {
  try {
    return decodeURIComponent(url) !== '';
  } catch {
    return false;
  }
}

/** `scheme://host[:port]`, written as browsers send it: any other form would never match. */
const isOrigin = (text: string): boolean =>
  /^https?:/.test(text)
    ? URL.canParse(text) && new URL(text).origin === text
    : /^[a-z][a-z0-9+.-]*:\/\/[\w.-]+$/.test(text);

const isServerAddress = (text: string): boolean => {
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+)(?::\d{1,5})?)$/.exec(text) ?? [];
  return isIP(bracketed ?? plain ?? text) > 0;
};

/** The configuration of this process. `process.env` is read here and below, nowhere else. */
export const readConfig = (): Config => parseConfig(process.env);

/** This process's environment for a program that it starts, without the variables that match. */
export const environmentWithout = (pattern: RegExp): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(process.env).filter(([variable]) => !pattern.test(variable)));

/** Says what a variable may hold, from its schema. */
function expectation(schema: TProperties[string]): string {
  if (schema['anyOf']) return `must be one of ${schema['anyOf'].map((one: { const: string }) => one.const).join(', ')}`;
  if (schema['type'] === 'integer') return `must be a whole number from ${schema['minimum']} to ${schema['maximum']}`;
  if (schema['pattern']) return `must match ${schema['pattern']}`;
  return 'must not be empty';
}
