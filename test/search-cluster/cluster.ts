import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream, symlinkSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { install, type Installation } from './install.ts';
import { freePorts } from '../setup/free-port.ts';

/** What a cluster is like. */
export interface ClusterOptions {
  nodes?: number;
  /** Of each node's heap, as Java writes it. */
  heap?: string;
  /** Settings of Elasticsearch for every node. */
  settings?: Record<string, string>;
}

interface TestNode {
  home: string;
  httpPort: number;
  transportPort: number;
  process: ChildProcess | undefined;
}

const startsWithinMs = 300_000;

/** A throwaway Elasticsearch on loopback, of one node or several, that can be hurt. It ends with this process, however that ends. */
export class SearchCluster {
  readonly #folder: string;
  readonly #installation: Installation;
  readonly #options: ClusterOptions;
  readonly #nodes: TestNode[];

  private constructor(folder: string, installation: Installation, options: ClusterOptions, nodes: TestNode[]) {
    this.#folder = folder;
    this.#installation = installation;
    this.#options = options;
    this.#nodes = nodes;
  }

  /** Starts the nodes and waits until they have found each other. */
  static async start(options: ClusterOptions = {}): Promise<SearchCluster> {
    const installation = await install();
    const folder = await mkdtemp(join(tmpdir(), 'search-cluster-'));
    const ports = await freePorts(2 * (options.nodes ?? 1));
    const nodes = Array.from({ length: options.nodes ?? 1 }, (_, i) => ({
      home: join(folder, `node-${i}`),
      httpPort: ports[2 * i]!,
      transportPort: ports[2 * i + 1]!,
      process: undefined,
    }));
    const cluster = new SearchCluster(folder, installation, options, nodes);
    try {
      for (const index of nodes.keys()) await cluster.#launch(index, true);
      await cluster.#formed();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** One address a node. */
  get urls(): string[] {
    return this.#nodes.map(({ httpPort }) => `http://127.0.0.1:${httpPort}`);
  }

  /** As `ELASTICSEARCH_URL` has it. */
  get url(): string {
    return this.urls.join(',');
  }

  /** Ends a node at once. */
  async kill(index: number): Promise<void> {
    const { process } = this.#nodes[index]!;
    if (!process || process.exitCode !== null || process.signalCode !== null) return;
    const ended = once(process, 'exit');
    process.kill('SIGKILL');
    await ended;
  }

  /** Starts a node again, with the data it had. */
  async restart(index: number): Promise<void> {
    await this.kill(index);
    await this.#launch(index, false);
    await this.#formed();
  }

  /** The node keeps its sockets and answers nothing. */
  freeze(index: number): void {
    this.#nodes[index]!.process!.kill('SIGSTOP');
  }

  thaw(index: number): void {
    this.#nodes[index]!.process!.kill('SIGCONT');
  }

  /** Brings back every node that was killed or frozen, and waits until all is well. */
  async revive(): Promise<void> {
    for (const [index, { process }] of this.#nodes.entries()) {
      this.thaw(index);
      if (process!.exitCode !== null || process!.signalCode !== null) await this.#launch(index, false);
    }
    await this.healthy();
  }

  /** Waits until every node is there and every copy of every shard is where it belongs. */
  async healthy(): Promise<void> {
    await this.#formed();
    await poll(() => fetch(`${this.urls[0]}/_cluster/health?wait_for_status=green&timeout=30s`).then(({ ok }) => ok));
  }

  /** Ends the nodes and deletes their data. */
  async stop(): Promise<void> {
    await Promise.all(this.#nodes.keys().map((index) => this.kill(index)));
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #launch(index: number, isNew: boolean): Promise<void> {
    const node = this.#nodes[index]!;
    if (isNew) await this.#furnish(node);
    const settings = Object.entries(this.#settings(index, isNew)).map(([name, value]) => `${name}=${value}`);
    const heap = this.#options.heap ?? '512m';
    const machine = [
      `-Xms${heap}`,
      `-Xmx${heap}`,
      '-XX:+UseG1GC',
      '-XX:TieredStopAtLevel=1', // the slow compiler takes half of all processor time of nodes that live for a minute
      '--add-modules=jdk.incubator.vector',
      '--enable-native-access=ALL-UNNAMED',
    ];
    const what = [
      `-Djava.io.tmpdir=${node.home}`,
      '-cp',
      this.#installation.classpath,
      'TestNode',
      node.home,
      ...settings,
    ];
    // Its standard input stays open as long as this process lives: see TestNode.java.
    node.process = spawn(this.#installation.java, [...machine, ...what], { stdio: ['pipe', 'pipe', 'pipe'] });
    const log = createWriteStream(join(node.home, 'log'), { flags: 'a' });
    node.process.stdout!.pipe(log);
    node.process.stderr!.pipe(log);
  }

  async #furnish({ home }: TestNode): Promise<void> {
    await mkdir(join(home, 'config'), { recursive: true });
    await Promise.all(['plugins', 'lib'].map((name) => mkdir(join(home, name))));
    symlinkSync(this.#installation.modules, join(home, 'modules'));
    const console = [
      'type = Console',
      'name = console',
      'layout.type = PatternLayout',
      'layout.pattern = %d %p %c{1.} %m%n',
    ];
    const logging = [
      'status = error',
      ...console.map((line) => `appender.console.${line}`),
      'rootLogger.level = warn',
      'rootLogger.appenderRef.console.ref = console',
    ];
    await writeFile(join(home, 'config', 'log4j2.properties'), `${logging.join('\n')}\n`);
  }

  #settings(index: number, isNew: boolean): Record<string, string> {
    const { httpPort, transportPort } = this.#nodes[index]!;
    const several = this.#nodes.length > 1;
    const names = this.#nodes.map((_, i) => `node-${i}`).join(',');
    return {
      'node.name': `node-${index}`,
      'cluster.name': this.#folder.split('/').at(-1)!,
      'network.host': '127.0.0.1',
      'http.port': String(httpPort),
      'transport.port': String(transportPort),
      // Only a cluster that has never been one is told its first masters.
      ...(several && isNew ? { 'cluster.initial_master_nodes': names } : {}),
      ...(several
        ? { 'discovery.seed_hosts': this.#nodes.map((node) => `127.0.0.1:${node.transportPort}`).join(',') }
        : { 'discovery.type': 'single-node' }),
      'cluster.routing.allocation.disk.threshold_enabled': 'false',
      'indices.breaker.total.use_real_memory': 'false',
      ...this.#options.settings,
    };
  }

  async #formed(): Promise<void> {
    const query = `wait_for_nodes=${this.#nodes.length}&timeout=1s`;
    const answers = async (url: string): Promise<boolean> =>
      (await fetch(`${url}/_cluster/health?${query}`, { signal: AbortSignal.timeout(5_000) })).ok;
    for (const [index, url] of this.urls.entries())
      await poll(async () => {
        const { process, home } = this.#nodes[index]!;
        if (process!.exitCode !== null)
          throw new Ended(`a node ended:\n${(await readFile(join(home, 'log'), 'utf8')).slice(-2_000)}`);
        return answers(url);
      });
  }
}

class Ended extends Error {}

/** Tries until it is true; what fails on the way counts as not yet. */
async function poll(attempt: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + startsWithinMs;
  for (;;) {
    try {
      if (await attempt()) return;
    } catch (error) {
      if (error instanceof Ended) throw error;
    }
    if (performance.now() > deadline) throw new Error('the search cluster did not get ready in time');
    await sleep(100);
  }
}
