import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { atEnd, temporaryFolder } from './at-end.ts';
import { freePorts } from './free-port.ts';
import { blockOf } from './handbook.ts';

// The proxies of deploy/ and docs/operating.md. Of their configurations only addresses and names of files are changed here.

/** A suffix for the name of a test group that needs these programs; empty if they are installed. */
export function needPrograms(...programs: string[]): string {
  const missing = programs.filter((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0);
  return missing.length > 0 ? `(needs ${missing.join(', ')}: apt-get install ${missing.join(' ')})` : '';
}

/** A running proxy. It ends after the tests of the file at the latest. */
export interface Proxy {
  url: string;
  /** What it has written to stderr until now. */
  log(): string;
  stop(): Promise<void>;
}

/** Changes a supplied configuration further. */
type Edit = (text: string) => string;

const supplied = (name: string): string => readFileSync(join(import.meta.dirname, '..', '..', 'deploy', name), 'utf8');

/** Starts a program in the foreground, and waits until it accepts connections at the port. */
async function start(
  [program, ...words]: [string, ...string[]],
  { folder, configuration, port, env = {} }: { folder: string; configuration: string; port: number; env?: object },
): Promise<Proxy> {
  await writeFile(join(folder, 'configuration'), configuration);
  const child = spawn(program, [...words, join(folder, 'configuration')], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, HOME: folder, ...env },
  });
  let logged = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (logged += chunk));
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = () => {
    child.kill('SIGTERM');
    return ended;
  };
  atEnd(stop);
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}: ${logged}`);
    await sleep(20);
  }
  return { url: `http://127.0.0.1:${port}`, log: () => logged, stop };
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

/**
 * Starts nginx in front of a server.
 * @param target host and port of the server
 */
export async function startNginx(target: string, edit: Edit = (conf) => conf): Promise<Proxy> {
  const folder = await temporaryFolder();
  const [port] = (await freePorts(1)) as [number];
  const conf = edit(supplied('nginx.conf'))
    .replace('server api:3000;', `server ${target};`)
    .replace(/listen (80|443)\b/, `listen 127.0.0.1:${port}`);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${folder};`);
  const configuration = `daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr crit; events { worker_connections 1024; }
    http { access_log off; ${temporary.join(' ')} ${conf} }`;
  return start(['nginx', '-p', folder, '-c'], { folder, configuration, port });
}

export interface Haproxy extends Proxy {
  /** Returns the targets (`host:port`) that HAProxy sends requests to, because their health checks succeed. */
  ready(): Promise<string[]>;
  /** Its metrics, in the text format of Prometheus. */
  metrics(): Promise<string>;
}

/**
 * Starts HAProxy.
 * @param targets host and port of each instance of the service, running or not
 */
export async function startHaproxy(targets: string[], edit: Edit = (cfg) => cfg, env: object = {}): Promise<Haproxy> {
  const folder = await temporaryFolder();
  const [port, metricsPort] = (await freePorts(2)) as [number, number];
  const socket = join(folder, 'socket');
  const configuration = edit(supplied('haproxy.cfg'))
    .replace(/^ {2}server-template .*$/m, targets.map((target) => `  server ${target} ${target}`).join('\n'))
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replace('bind :8405', `bind 127.0.0.1:${metricsPort}`)
    .replace('bind 127.0.0.1:8404', `bind unix@${folder}/health`)
    .replace(/^global$/m, `global\n  stats socket ${socket}`);
  const proxy = await start(['haproxy', '-db', '-f'], { folder, configuration, port, env });
  // HAProxy gives its socket the final name only after it listens at its ports.
  while (!existsSync(socket)) await sleep(20);
  return {
    ...proxy,
    ready: async () => {
      const connection = connect(socket);
      connection.end('show stat\n');
      const rows = (await text(connection)).split('\n').map((line) => line.split(','));
      const status = rows[0]!.indexOf('status');
      return rows
        .filter((row) => row[0] === 'api' && row[1] !== 'BACKEND' && row[status] === 'UP')
        .map((row) => row[1]!);
    },
    metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
  };
}

/** Starts HAProxy in front of one server, and waits until it sends requests there. */
export async function startReadyHaproxy(target: string, edit?: Edit, env?: object): Promise<Haproxy> {
  const haproxy = await startHaproxy([target], edit, env);
  while ((await haproxy.ready()).length === 0) await sleep(50);
  return haproxy;
}

/** Starts each proxy as docs/operating.md describes it for TLS, with a certificate of its own. */
export const tlsProxies: Record<'nginx' | 'haproxy' | 'caddy', (target: string) => Promise<Proxy>> = {
  nginx: async (target) => {
    const [certificate, key] = await makeCertificate();
    const tls = blockOf('nginx')
      .replace(/ssl_certificate .*;/, `ssl_certificate ${certificate};`)
      .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${key};`);
    return startNginx(target, (conf) => conf.replace('listen 80;', tls));
  },
  haproxy: async (target) => {
    const [, , both] = await makeCertificate();
    const PROXY_TLS = /^PROXY_TLS=(.*)$/m.exec(blockOf('tls'))![1]!.replace(/crt \S+/, `crt ${both}`);
    return startReadyHaproxy(target, undefined, { PROXY_TLS });
  },
  caddy: async (target) => {
    const folder = await temporaryFolder();
    const [[certificate, key], [port]] = [await makeCertificate(), (await freePorts(1)) as [number]];
    const site = blockOf('caddy')
      .replace('api.example.com {', `https://127.0.0.1:${port} {\n\ttls ${certificate} ${key}`)
      .replaceAll(/192\.0\.2\.1[12]:3000/g, target);
    const options = `admin off\nauto_https disable_redirects\nstorage file_system ${folder}\nlog {\nlevel ERROR\n}`;
    const configuration = `{\n${options}\n}\n${site}`;
    return start(['caddy', 'run', '--adapter', 'caddyfile', '--config'], { folder, configuration, port });
  },
};

/** Returns the paths of a certificate, of its key, and of a file with both. */
async function makeCertificate(): Promise<[certificate: string, key: string, both: string]> {
  const folder = await temporaryFolder();
  const [certificate, key, both] = ['cert.pem', 'key.pem', 'both.pem'].map((name) => join(folder, name)) as [string, string, string]; // prettier-ignore
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
  execFileSync('openssl', ['req', ...options, ...subject, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  await writeFile(both, readFileSync(certificate, 'utf8') + readFileSync(key, 'utf8'));
  return [certificate, key, both];
}
