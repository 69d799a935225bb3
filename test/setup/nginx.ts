import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './free-port.ts';

/** Whether nginx is installed. */
export const hasNginx = spawnSync('nginx', ['-v'], { stdio: 'ignore' }).status === 0;

/** Returns `deploy/nginx.conf`. */
export const suppliedNginx = (): string =>
  readFileSync(join(import.meta.dirname, '..', '..', 'deploy', 'nginx.conf'), 'utf8');

/** A running nginx. */
export interface Nginx {
  url: string;
  stop(): Promise<void>;
}

/**
 * Starts nginx with `deploy/nginx.conf` in front of a server. Changes only the addresses in it, and what `edit`
 * changes.
 * @param target host and port of the server
 */
export async function startNginx(target: string, edit = (conf: string): string => conf): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), 'nginx-'));
  const port = await freePort();
  const conf = edit(suppliedNginx())
    .replace('server api:3000;', `server ${target};`)
    .replace('listen 80;', `listen 127.0.0.1:${port};`);
  await writeFile(join(folder, 'nginx.conf'), nginxMain(folder, conf));
  const child = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
    await rm(folder, { recursive: true, force: true });
  };
  const url = `http://127.0.0.1:${port}`;
  for (;;) {
    if (
      await fetch(url).then(
        () => true,
        () => child.exitCode !== null,
      )
    )
      break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return { url, stop };
}

/** Returns a complete configuration for nginx in the foreground, with `conf` in its `http` block. */
export function nginxMain(folder: string, conf: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${folder};`);
  return `daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr crit; events { worker_connections 1024; }
    http { access_log off; ${temporary.join(' ')} ${conf} }`;
}
