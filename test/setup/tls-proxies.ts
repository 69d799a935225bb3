import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { blockOf } from './handbook.ts';
import { suppliedHaproxy } from './haproxy.ts';
import { nginxMain, suppliedNginx } from './nginx.ts';
import { freePort } from './free-port.ts';

/** A proxy of the handbook. Its configuration is changed only where addresses and file names must be. */
interface TlsProxy {
  /** Returns the configuration for a server at `target`, and the command that runs it in the foreground. */
  set(
    files: Files,
    port: number,
    target: string,
  ): { configuration: string; command: string[]; environment?: Record<string, string> };
}

interface Files {
  folder: string;
  configuration: string;
  /** Certificate and key, each as a file, and both in one. */
  certificate: string;
  key: string;
  both: string;
}

const proxies = {
  nginx: {
    set: ({ folder, configuration, certificate, key }, port, target) => {
      const tls = blockOf('nginx')
        .replace('listen 443', `listen 127.0.0.1:${port}`)
        .replace(/ssl_certificate .*;/, `ssl_certificate ${certificate};`)
        .replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${key};`);
      const conf = suppliedNginx().replace('listen 80;', tls).replace('server api:3000;', `server ${target};`);
      return { configuration: nginxMain(folder, conf), command: ['nginx', '-p', folder, '-c', configuration] };
    },
  },
  haproxy: {
    set: ({ folder, configuration, both }, port, target) => ({
      configuration: suppliedHaproxy()
        .replace('bind :8080', `bind 127.0.0.1:${port}`)
        .replace(/^ {2}server-template .*$/m, `  server one ${target}\n  server two ${target}`)
        .replace(/^resolvers (?:.+\n)+/m, '')
        .replace(/^ *bind 127\.0\.0\.1:8404\n/m, `  bind unix@${folder}/health\n`),
      command: ['haproxy', '-db', '-q', '-f', configuration],
      environment: { PROXY_TLS: /^PROXY_TLS=(.*)$/m.exec(blockOf('tls'))![1]!.replace(/crt \S+/, `crt ${both}`) },
    }),
  },
  caddy: {
    set: ({ folder, configuration, certificate, key }, port, target) => ({
      configuration: `{
	admin off
	auto_https disable_redirects
	storage file_system ${folder}
	log {
		level ERROR
	}
}
${blockOf('caddy')
  .replace('api.example.com {', `https://127.0.0.1:${port} {\n\ttls ${certificate} ${key}`)
  .replaceAll(/192\.0\.2\.1[12]:3000/g, target)}`,
      command: ['caddy', 'run', '--adapter', 'caddyfile', '--config', configuration],
    }),
  },
} satisfies Record<string, TlsProxy>;

export type ProxyName = keyof typeof proxies;

/** The programs that are missing for `startTlsProxy`. */
export const missingForTls = (['nginx', 'haproxy', 'caddy', 'openssl'] as const).filter(
  (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status !== 0,
);

/** Starts a proxy as docs/operating.md describes it, with a certificate of its own. Returns the URL and a stop function. */
export async function startTlsProxy(
  name: ProxyName,
  target: string,
): Promise<{ url: string; stop: () => Promise<void> }> {
  const files = makeFiles(mkdtempSync(join(tmpdir(), 'tls-proxy-')));
  const port = await freePort();
  const { configuration, command, environment }: ReturnType<TlsProxy['set']> = proxies[name].set(files, port, target);
  writeFileSync(files.configuration, configuration);
  const [program, ...options] = command as [string, ...string[]];
  const child = spawn(program, options, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, ...environment, HOME: files.folder },
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`${name} ended with ${child.exitCode}`);
    await sleep(20);
  }
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    rmSync(files.folder, { recursive: true, force: true });
  };
  return { url: `https://127.0.0.1:${port}`, stop };
}

function makeFiles(folder: string): Files {
  const [certificate, key, both] = ['cert.pem', 'key.pem', 'both.pem'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const options = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '1'];
  execFileSync('openssl', ['req', ...options, ...subject, '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  writeFileSync(both, readFileSync(certificate, 'utf8') + readFileSync(key, 'utf8'));
  return { folder, configuration: join(folder, 'configuration'), certificate, key, both };
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true)).on('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
