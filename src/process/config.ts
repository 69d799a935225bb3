import { isIP } from 'node:net';
import { Type, type Static, type TLiteral, type TProperties } from '@sinclair/typebox';
import { Value } from '@sinclair/typebox/value';
import { parseRanges, rangeSyntax } from './ip-addresses.ts';
import { readSecretFiles, withPassword, isHeader } from './settings.ts';

const integer = (description: string, value: number, minimum: number, maximum: number) =>
  Type.Integer({ minimum, maximum, default: value, description });
const port = (description: string, value: number) => integer(description, value, 0, 65535);
const milliseconds = (description: string, value: number) => integer(`${description} (ms)`, value, 1, 3_600_000);
const count = (description: string, value: number) => integer(description, value, 1, 10_000);
const credits = (item: string) => integer(`credits that ${item} costs`, 1, 0, 10_000);
const perMinute = (description: string, value: number) =>
  integer(`${description} per minute; 0 turns this limit off`, value, 0, 1_000_000_000);
const onOff = (description: string, value: 'on' | 'off') =>
  Type.Union([Type.Literal(value), Type.Literal(value === 'on' ? 'off' : 'on')] as [TLiteral<'on'>, TLiteral<'off'>], {
    default: value,
    description,
  });
const text = (description: string, value: string, pattern?: string) =>
  Type.String({ ...(pattern !== undefined && { pattern }), default: value, description });
const optionalText = (description: string, options: { pattern?: string } = {}) =>
  Type.Optional(Type.String({ ...options, description }));
/**
 * Schema of a URL that can contain a password. It is `secret`: a file can provide its value, for example the file that
 * `DATABASE_URL_FILE` names.
 */
const secretUrl = (description: string, pattern: string) =>
  Type.Optional(Type.String({ pattern, description, secret: true }));
const secretText = (description: string) => Type.Optional(Type.String({ description, secret: true }));

export const ConfigSchema = Type.Object({
  HOST: text('address to listen on; `0.0.0.0` in the image', '127.0.0.1'),
  PORT: port('port to listen on; 0 selects a free port', 3000),
  METRICS_PORT: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 65535,
      description:
        'second port, for `/metrics`, `/healthz` and `/readyz`; `serve` then has no `/metrics` on `PORT`, but still the other two; if not set, `work` does not listen',
    }),
  ),
  PUBLIC_URL: optionalText('URL at which callers reach the service, shown in the OpenAPI document', {
    pattern: '^https?://[^\\s]+$',
  }),
  DATABASE_URL: secretUrl(
    'PostgreSQL 18 or newer, with the login of the service; if not set, an embedded server is started in `DATA_DIR`',
    '^postgres(ql)?://[^\\s]+$',
  ),
  MIGRATION_DATABASE_URL: secretUrl(
    'the same database with the login of its owner, for `migrate`; default: `DATABASE_URL`',
    '^postgres(ql)?://[^\\s]+$',
  ),
  DATABASE_PASSWORD: secretText('password of the user in `DATABASE_URL`, as it is, with any character'),
  MIGRATION_DATABASE_PASSWORD: secretText('password of the user in `MIGRATION_DATABASE_URL`'),
  DATA_DIR: text('data folder of the embedded PostgreSQL', '.data'),
  DATABASE_LOOKUP_CONNECTIONS: count('pipelined connections for short reads', 2),
  DATABASE_CREDENTIAL_CONNECTIONS: count('pipelined connections for looking up keys and sessions', 1),
  DATABASE_SEARCH_CONNECTIONS: count('connections for filtered reads; one customer can use at most half of them', 12),
  DATABASE_TRANSACTION_CONNECTIONS: count(
    'connections for transactions; one customer can use at most half of them',
    20,
  ),
  DATABASE_QUEUE_LENGTH: count(
    'requests that may wait for a connection, per kind; one customer can use at most half of the queue; a request beyond that gets 503',
    500,
  ),
  DATABASE_QUEUE_MS: milliseconds('longest total time that a request waits for connections before 503', 1_000),
  REQUEST_TIMEOUT_MS: milliseconds(
    'longest time for one request, waits included, before 503; an export may take an hour',
    10_000,
  ),
  STATEMENT_TIMEOUT_MS: milliseconds('longest run of one SQL statement before 503', 10_000),
  OVERLOAD_MS: integer(
    'delay of the event loop that counts as overload: requests then get 503 (ms); 0 turns the check off',
    1_000,
    0,
    60_000,
  ),
  ELASTICSEARCH_URL: secretUrl(
    'nodes of the Elasticsearch cluster that stores the prospect catalog, comma-separated; if not set, PostgreSQL stores it',
    '^https?://[^\\s,]+(,https?://[^\\s,]+)*$',
  ),
  ELASTICSEARCH_API_KEY: secretText('API key of the Elasticsearch cluster, unless the URL contains a login'),
  ELASTICSEARCH_INDEX: text(
    "name of the catalog's alias in Elasticsearch, and prefix of its indexes",
    'sales-data-prospects',
    '^[a-z][a-z0-9_-]{0,99}$',
  ),
  ELASTICSEARCH_SHARDS: integer('shards of a new index', 1, 1, 1024),
  ELASTICSEARCH_REPLICAS: integer('replicas of each shard of a new index', 1, 0, 16),
  ELASTICSEARCH_READS: count('concurrent reads of Elasticsearch; one customer can use at most half of them', 8),
  ELASTICSEARCH_TIMEOUT_MS: milliseconds('longest wait for the response of an Elasticsearch node before 503', 4_000),
  ELASTICSEARCH_BULK_TIMEOUT_MS: milliseconds(
    'longest wait for one bulk write of an import before it is retried',
    60_000,
  ),
  PROSPECT_MASKING: onOff(
    'whether e-mail addresses and phones of prospects are masked until the customer has unlocked them',
    'on',
  ),
  UNLOCK_COST: credits('an unlocked prospect'),
  VERIFY_COST: credits('a verified e-mail address'),
  VERIFY_REUSE_HOURS: integer(
    'hours for which the result of verifying an address is reused for the same customer, free; 0: never',
    24,
    0,
    28 * 24, // results are kept for 30 days
  ),
  VERIFY_DNS_SERVERS: optionalText(
    "DNS servers for MX lookups, `address` or `address:port`, comma-separated; default: the system's",
    { pattern: '^[0-9a-fA-F.:\\[\\]]+(,[0-9a-fA-F.:\\[\\]]+)*$' },
  ),
  VERIFY_CANARY_DOMAINS: text(
    'domains that certainly have a mail server, comma-separated. While the name server knows none of them, it is not believed if it says that a domain does not exist, and verifications wait. Empty: off',
    'gmail.com,outlook.com',
    '^([A-Za-z0-9.-]+(,[A-Za-z0-9.-]+)*)?$',
  ),
  VERIFY_DNS_TIMEOUT_MS: milliseconds('longest wait for the response of a DNS server before a retry', 2_000),
  VERIFY_DNS_TRIES: integer('number of queries to each DNS server', 2, 1, 10),
  VERIFY_SMTP: onOff(
    'whether mail servers are asked for the mailbox (RCPT, no mail is sent); if `off`, an address is `verified` if its domain accepts mail',
    'off',
  ),
  VERIFY_SMTP_PORT: port('port of the mail servers', 25),
  VERIFY_SMTP_SENDER: optionalText('sender address (MAIL FROM) given to mail servers; default: the empty sender `<>`', {
    pattern: '^[!-;=?A-~]+@[A-Za-z0-9.-]+$',
  }),
  VERIFY_SMTP_NAME: optionalText(
    "host name (EHLO) given to mail servers; it should match the reverse DNS of this machine's address",
    { pattern: '^[A-Za-z0-9.-]+$' },
  ),
  VERIFY_SMTP_TIMEOUT_MS: milliseconds(
    'longest wait for a connection to a mail server, and for each of its replies',
    10_000,
  ),
  VERIFY_DEADLINE_MS: milliseconds(
    'longest time to verify one address, without its wait in the queue; after that the address is `unknown`',
    30_000,
  ),
  VERIFY_CONNECTIONS: count('concurrent mailbox checks, per process', 100),
  VERIFY_DOMAIN_CONNECTIONS: count(
    'concurrent mailbox checks of one domain, for all customers together, per process',
    2,
  ),
  VERIFY_DOMAIN_INTERVAL_MS: integer(
    'shortest time between the starts of two mailbox checks of one domain (ms); 0: no pause',
    500,
    0,
    3_600_000,
  ),
  VERIFY_PRIVATE_ADDRESSES: onOff('whether mail servers at private addresses are called too; for tests', 'off'),
  WEBHOOK_SECRET_KEY: secretText(
    "32 bytes in base64 that encrypt the secrets of webhook endpoints; without it, webhooks wait, but the embedded PostgreSQL's `DATA_DIR` gets one",
  ),
  WEBHOOK_ALLOW_HTTP: onOff('whether webhooks may be sent to `http://` URLs; for development', 'off'),
  WEBHOOK_ALLOW_PRIVATE: onOff('whether webhooks may be sent to addresses that are not public; for development', 'off'),
  WEBHOOK_DENY: optionalText(
    'further networks to which no webhook is sent: addresses and ranges such as `198.51.100.0/24`, comma-separated',
  ),
  WEBHOOK_DELIVERIES: count(
    'webhooks that a worker sends at the same time; one customer can use at most half of them, and so can all endpoints whose last delivery failed',
    1000,
  ),
  LOG_LEVEL: Type.Union(
    (['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const).map((level) => Type.Literal(level)),
    { default: 'info', description: 'lowest level that is logged' },
  ),
  LOG_FORMAT: Type.Optional(
    Type.Union([Type.Literal('json'), Type.Literal('pretty')], {
      description: 'format of log lines; default: `pretty` on a terminal, otherwise `json`',
    }),
  ),
  TRUST_PROXY: optionalText(
    'proxies whose `X-Forwarded-For` is trusted: addresses, ranges such as `10.0.0.0/8`, `loopback`, `linklocal` or `uniquelocal`, comma-separated',
  ),
  MAX_CONNECTIONS: integer(
    'concurrent connections of callers, per process; further ones are closed',
    2_000,
    1,
    100_000,
  ),
  MAX_BUFFERED_MB: integer(
    'memory for bodies of requests above 64 KiB, per process (MiB); one customer can use at most half of it',
    256,
    16,
    65_536,
  ),
  HISTORY_DAYS: integer(
    'how long the journal of changes is kept, at least (days; at most eight days longer), and the rows of deleted companies and lists, which no answer shows',
    90,
    1,
    110,
  ),
  CORS_ORIGINS: optionalText('origins that browsers may call from, comma-separated'),
  RATE_LIMITS: onOff('rate limits; `off` turns off every limit below', 'on'),
  RATE_LIMIT_DEFAULT: perMinute('requests of one API key', 6_000),
  RATE_LIMIT_PROSPECTS: perMinute('lists, counts and matches of prospects, per API key', 600),
  RATE_LIMIT_JOBS: perMinute('calls that start a job, per API key', 60),
  RATE_LIMIT_BULK: perMinute(
    'batches, exports, duplicates, merges, and the start and file of an import, per API key',
    600,
  ),
  RATE_LIMIT_KEYS: perMinute('calls of `/api/api-key`, `/api/webhook` and `/api/auth` with a session, per user', 60),
  RATE_LIMIT_PAGES: perMinute('requests for pages under `/app`, per user', 600),
  RATE_LIMIT_LOGIN: perMinute(
    'failed logins of one account from one address (for all accounts together: three times as many)',
    10,
  ),
  RATE_LIMIT_UNAUTHENTICATED: perMinute('requests from one address that get 401', 300),
  REDIS_URL: secretUrl(
    'Redis or Valkey server where all instances count requests together; if not set, each process counts its own requests',
    '^rediss?://[^\\s]+$',
  ),
  REDIS_PASSWORD: secretText('password of the server in `REDIS_URL`'),
  OTEL_EXPORTER_OTLP_ENDPOINT: secretUrl(
    'OpenTelemetry collector that gets traces, at `/v1/traces` below this URL; if not set, tracing is off',
    '^https?://[^\\s]+$',
  ),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: secretUrl(
    'full URL that gets traces, instead of `OTEL_EXPORTER_OTLP_ENDPOINT`',
    '^https?://[^\\s]+$',
  ),
  OTEL_EXPORTER_OTLP_PROTOCOL: Type.Union([Type.Literal('http/protobuf'), Type.Literal('http/json')], {
    default: 'http/protobuf',
    description: 'encoding of the traces',
  }),
  OTEL_EXPORTER_OTLP_HEADERS: secretText(
    'headers for the collector, `name=value`, comma-separated; write special characters as %XX',
  ),
  OTEL_SERVICE_NAME: text('name of this service in logs and traces', 'sales-data-api'),
  KEY_PREFIX: text('first part of newly issued API keys', 'sda', '^[a-z][a-z0-9]{1,15}$'),
  SHUTDOWN_GRACE_MS: integer(
    'time after SIGTERM in which `serve` still accepts requests while `/readyz` returns 503, so that load balancers stop sending them (ms); `compose.yaml` sets 5000',
    0,
    0,
    600_000,
  ),
  SHUTDOWN_MS: milliseconds(
    'longest wait at SIGTERM, after the grace time, for requests in flight and for running mailbox checks',
    15_000,
  ),
});

export type Config = Readonly<Static<typeof ConfigSchema>>;

/**
 * Lists the problems of the configuration in `faults`. The messages contain no values of variables, because these can
 * be secret.
 */
export class ConfigError extends Error {
  readonly faults: string[];

  constructor(faults: string[]) {
    super(`The configuration is not valid:\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.name = 'ConfigError';
    this.faults = faults;
  }
}

const properties: TProperties = ConfigSchema.properties;
const secrets = Object.keys(properties).filter((name) => properties[name]!['secret'] === true);

const emptyMeansOff = new Set(['VERIFY_CANARY_DOMAINS']);

/**
 * Reads secrets from files (see `readSecretFiles`), and inserts passwords into the database and Redis URLs. Ignores
 * variables with an empty value.
 * @throws ConfigError listing all invalid variables
 */
export function parseConfig(variables: Record<string, string | undefined>): Config {
  const { environment, faults: fileFaults } = readSecretFiles(variables, secrets);
  const given = Object.keys(properties).filter(
    (name) => (environment[name] ?? '') !== '' || (environment[name] === '' && emptyMeansOff.has(name)),
  );
  const raw = Object.fromEntries(given.map((name) => [name, read(properties[name]!, environment[name]!)]));
  const parsed = Value.Default(ConfigSchema, raw) as Static<typeof ConfigSchema>;
  const faulty = new Set([...Value.Errors(ConfigSchema, parsed)].map((error) => error.path.split('/')[1]!));
  const faults = [
    ...fileFaults,
    ...[...faulty].map((name) => `${name}: ${expectation(properties[name]!)}`),
    ...given.filter((name) => !faulty.has(name)).flatMap((name) => faultsOf(name, environment[name]!)),
    ...passwordFaults(parsed),
  ];
  if (faults.length > 0) throw new ConfigError(faults);
  return Object.freeze(insertPasswords(parsed));
}

export function publicUrl({ PUBLIC_URL, HOST, PORT }: Pick<Config, 'PUBLIC_URL' | 'HOST' | 'PORT'>): string {
  const host = isIP(HOST) === 6 ? `[${HOST}]` : HOST;
  return (PUBLIC_URL ?? `http://${host}:${PORT}`).replace(/\/$/, '');
}

const passwords = [
  ['DATABASE_PASSWORD', 'DATABASE_URL'],
  ['MIGRATION_DATABASE_PASSWORD', 'MIGRATION_DATABASE_URL'],
  ['REDIS_PASSWORD', 'REDIS_URL'],
] as const;

const passwordFaults = (config: Config): string[] =>
  passwords
    .filter(([password, url]) => config[password] !== undefined && config[url] === undefined)
    .map(([password, url]) => `${password}: is set without ${url}`);

function insertPasswords(config: Config): Config {
  const inserted = { ...config };
  for (const [password, url] of passwords)
    if (config[password] !== undefined) inserted[url] = withPassword(config[url]!, config[password]);
  return inserted;
}

/**
 * Converts digits to a number if the schema requires an integer. Returns other values, such as `1.5` or `1e3`,
 * unchanged, so that the schema rejects them.
 */
const read = (schema: TProperties[string], text: string): string | number =>
  schema['type'] === 'integer' && /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text;

function isDatabaseUrl(value: string): boolean {
  const oneHost = value.replace(/^([a-z]+:\/\/(?:[^/?#]*@)?[^,/?#]*),[^/?#]*/, '$1');
  return URL.canParse(oneHost) && !value.includes('#') && isPercentEncoded(oneHost);
}

const isWebhookKey = (text: string): boolean =>
  /^[A-Za-z0-9+/]{43}=$/.test(text) && Buffer.from(text, 'base64').length === 32;

const isEncodedUrl = (text: string): boolean => URL.canParse(text) && isPercentEncoded(text);

function isPercentEncoded(url: string): boolean {
  try {
    return !decodeURIComponent(url).includes('\0');
  } catch {
    return false;
  }
}

/** Returns true for a web origin (such as `https://app.example.com`) in exactly the form that browsers send. */
const isOrigin = (text: string): boolean =>
  /^https?:/.test(text)
    ? URL.canParse(text) && new URL(text).origin === text
    : /^[a-z][a-z0-9+.-]*:\/\/[\w.-]+$/.test(text);

const isServerAddress = (text: string): boolean => {
  const [, bracketed, plain] = /^(?:\[([^\]]+)\](?::\d{1,5})?|([\d.]+)(?::\d{1,5})?)$/.exec(text) ?? [];
  return isIP(bracketed ?? plain ?? text) > 0;
};

type Check = (value: string) => string[];

const must =
  (isValid: (value: string) => boolean, expected: string): Check =>
  (value) =>
    isValid(value) ? [] : [`must be ${expected}`];

/**
 * Returns a check of each element of a comma-separated list. Its messages have the position, but not the element, which
 * can be secret.
 */
const eachMust =
  (isValid: (element: string) => boolean, expected: string): Check =>
  (list) =>
    list.split(',').flatMap((element, i) => (isValid(element.trim()) ? [] : [`element ${i + 1} must be ${expected}`]));

const checkRanges: Check = (value) =>
  parseRanges(value).faults.map((position) => `element ${position} must be ${rangeSyntax}`);

const databaseUrl =
  'a URL such as postgres://user:password@host:5432/database; ' +
  'write # / ? @ : and % in a password as %23 %2F %3F %40 %3A and %25, or put it into a variable of its own (DATABASE_PASSWORD)';

/**
 * Checks that a schema cannot express, by variable. Each returns one message per problem, without the
 * variable's value.
 */
const checks: { readonly [name in keyof Config]?: Check } = {
  DATABASE_URL: must(isDatabaseUrl, databaseUrl),
  MIGRATION_DATABASE_URL: must(isDatabaseUrl, databaseUrl),
  PUBLIC_URL: must(URL.canParse, 'a URL such as https://api.example.com'),
  ELASTICSEARCH_URL: eachMust(isEncodedUrl, 'a URL such as http://search:9200; write % in a password as %25'),
  OTEL_EXPORTER_OTLP_ENDPOINT: must(URL.canParse, 'a URL such as http://collector:4318'),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: must(URL.canParse, 'a URL such as http://collector:4318/v1/traces'),
  OTEL_EXPORTER_OTLP_HEADERS: eachMust(
    isHeader,
    'a header `name=value`; write `%`, `,`, `;` and characters outside ASCII as %XX',
  ),
  REDIS_URL: must(
    isEncodedUrl,
    'a URL such as redis://redis:6379; write special characters in a password as %XX, or set REDIS_PASSWORD',
  ),
  TRUST_PROXY: checkRanges,
  WEBHOOK_SECRET_KEY: must(isWebhookKey, '32 bytes in base64, as `openssl rand -base64 32` prints them'),
  WEBHOOK_DENY: checkRanges,
  CORS_ORIGINS: eachMust(isOrigin, 'an origin such as https://app.example.com, without a path'),
  VERIFY_DNS_SERVERS: eachMust(isServerAddress, 'an IP address or address:port'),
};

const faultsOf = (name: string, value: string): string[] =>
  (checks[name as keyof Config]?.(value) ?? []).map((fault) => `${name}: ${fault}`);

export const readConfig = (): Config => parseConfig(process.env);

export const environmentWithout = (pattern: RegExp): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(process.env).filter(([variable]) => !pattern.test(variable)));

function expectation(schema: TProperties[string]): string {
  if (schema['anyOf']) return `must be one of ${schema['anyOf'].map((one: { const: string }) => one.const).join(', ')}`;
  if (schema['type'] === 'integer') return `must be a whole number from ${schema['minimum']} to ${schema['maximum']}`;
  return `must match ${schema['pattern']}`;
}

export type ConfigReport = ReturnType<typeof describeConfig>;

export function describeConfig(variables: Record<string, string | undefined> = process.env) {
  const config = parseConfig(variables);
  const isSet = (name: string): boolean => (variables[name] ?? '') !== '';
  const settings = Object.keys(properties).map((name) => {
    const value = config[name as keyof Config];
    const from = isSet(`${name}_FILE`)
      ? 'file'
      : isSet(name)
        ? 'environment'
        : value === undefined
          ? 'not set'
          : 'default';
    const shown = value === undefined ? null : secrets.includes(name) ? '(secret)' : String(value);
    return { name, value: shown, from } as const;
  });
  const known = new Set([...Object.keys(properties), ...secrets.map((name) => `${name}_FILE`)]);
  // Those that look like one of this service, such as `RATE_LIMIT_DEFUALT`.
  const unknown = Object.keys(variables).filter((name) => !known.has(name) && ownPrefix.test(name));
  const given = settings.filter(({ from }) => from === 'environment' || from === 'file');
  const without_effect = given.flatMap(({ name }) =>
    dependent
      .filter(([prefix, , isOff]) => prefix.test(name) && isOff(config))
      .map(([, because]) => ({ name, because })),
  );
  return { settings, unknown, without_effect };
}

/** Matches the prefixes of this service's variables, except prefixes that other programs also use. */
const ownPrefix =
  /^(MIGRATION_DATABASE|DATABASE|ELASTICSEARCH|RATE_LIMITS?|VERIFY|WEBHOOK|UNLOCK|PROSPECT|REQUEST|STATEMENT|OVERLOAD|SHUTDOWN|HISTORY|CORS|TRUST|METRICS|KEY_PREFIX|MAX_(CONNECTIONS|BUFFERED))(_|$)/;

/** Variables that can be without effect: a pattern of their names, the reason, and the condition. */
const dependent: [name: RegExp, because: string, isOff: (config: Config) => boolean][] = [
  [/^ELASTICSEARCH_(?!URL)/, 'ELASTICSEARCH_URL is not set', (config) => config.ELASTICSEARCH_URL === undefined],
  [/^RATE_LIMIT_/, 'RATE_LIMITS is off', (config) => config.RATE_LIMITS === 'off'],
  [/^VERIFY_(SMTP_|DOMAIN_|CONNECTIONS)/, 'VERIFY_SMTP is off', (config) => config.VERIFY_SMTP === 'off'],
  [/^DATA_DIR$/, 'DATABASE_URL is set', (config) => config.DATABASE_URL !== undefined],
  [
    /^OTEL_(?!EXPORTER_OTLP_(TRACES_)?ENDPOINT|SERVICE_NAME)/,
    'no OTEL_EXPORTER_OTLP_ENDPOINT is set',
    ({ OTEL_EXPORTER_OTLP_ENDPOINT: one, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: other }) => (one ?? other) === undefined,
  ],
];
