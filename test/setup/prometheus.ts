import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';

/** True if Prometheus is not installed; for `describe.skipIf`. */
export const noPrometheus = spawnSync('prometheus', ['--version'], { stdio: 'ignore' }).status !== 0;
/** Suffix for the name of a test group that needs Prometheus; empty if it is installed. */
export const needPrometheus = noPrometheus ? '(needs prometheus: apt-get install prometheus)' : '';

/** One series of a query's result. */
export interface Series {
  metric: Record<string, string>;
  /** Time (Unix seconds) and value. */
  value: [number, string];
}

/** A running Prometheus. */
export interface Prometheus {
  /**
   * Evaluates a PromQL expression now.
   * @throws Error with Prometheus's message if the expression is not valid
   */
  query(expression: string): Promise<Series[]>;
  stop(): Promise<void>;
}

/** Starts a Prometheus that scrapes these addresses (`host:port`) every 200 ms, as the job `sales-data-api`. */
export async function startPrometheus(targets: string[]): Promise<Prometheus> {
  const folder = await mkdtemp(join(tmpdir(), 'prometheus-'));
  const port = await freePort();
  const jobs = [{ job_name: 'sales-data-api', static_configs: [{ targets }] }];
  const config = { global: { scrape_interval: '200ms', scrape_timeout: '200ms' }, scrape_configs: jobs };
  const file = join(folder, 'prometheus.yml');
  await writeFile(file, JSON.stringify(config)); // JSON is YAML
  const options = [
    `--config.file=${file}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const child = spawn('prometheus', [...options, '--log.level=error'], { stdio: ['ignore', 'ignore', 'inherit'] });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const url = `http://127.0.0.1:${port}`;
  while (
    !(await fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await sleep(50);
  return {
    query: async (expression) => {
      const answer = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query: expression }).toString()}`);
      const body = (await answer.json()) as { error?: string; data?: { result: Series[] } };
      if (!body.data) throw new Error(`${expression}: ${body.error}`);
      return body.data.result;
    },
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
