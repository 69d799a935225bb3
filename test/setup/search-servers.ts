import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { GenericContainer, getContainerRuntimeClient, Wait } from 'testcontainers';
import type { TestProject } from 'vitest/node';
import { SearchCluster } from '../search-cluster/cluster.ts';
import { missing } from '../search-cluster/install.ts';

/** Values that every test file can `inject`. */
declare module 'vitest' {
  export interface ProvidedContext {
    elasticsearch: {
      /** URL that starts a server on request and returns its address; null if none is available. */
      address: string | null;
      /** Whether test files can start nodes of their own and damage them. */
      nodes: boolean;
      /** How to get a server, and how to get nodes. */
      remedies: { server: string; nodes: string };
    };
  }
}

const image = 'docker.elastic.co/elasticsearch/elasticsearch:9.2.0';

/** A running server and a function that stops it. */
interface Running {
  url: string;
  stop: () => Promise<unknown>;
}

/**
 * Provides Elasticsearch for the tests: the server in ELASTICSEARCH_URL, else a container if an engine has the image,
 * else a node from Maven Central's jars. It starts when the first test file requests it, and is then shared.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const lack = await missing();
  const start = await choose(lack);
  let running: Promise<Running> | undefined;
  const onDemand = start && (await listen(async () => (await (running ??= start())).url));
  const address = onDemand ? addressOf(onDemand) : null;
  project.provide('elasticsearch', { address, nodes: lack === undefined, remedies: remedies(lack) });
  return async () => {
    onDemand?.close();
    await (await running)?.stop();
  };
}

async function choose(lack: string | undefined): Promise<(() => Promise<Running>) | undefined> {
  const url = process.env['ELASTICSEARCH_URL'];
  if (url) return async () => ({ url, stop: async () => undefined });
  if (await hasImage()) return startContainer;
  return lack === undefined ? startNode : undefined;
}

const hasImage = (): Promise<boolean> =>
  getContainerRuntimeClient().then(
    (client) => client.container.dockerode.getImage(image).inspect().then(() => true),
  ).catch(() => false); // prettier-ignore

async function startContainer(): Promise<Running> {
  const container = await new GenericContainer(image)
    .withEnvironment({
      'discovery.type': 'single-node',
      'xpack.security.enabled': 'false',
      ES_JAVA_OPTS: '-Xms512m -Xmx512m',
    })
    .withExposedPorts(9200)
    .withWaitStrategy(Wait.forHttp('/_cluster/health?wait_for_status=yellow', 9200))
    .start();
  return { url: `http://${container.getHost()}:${container.getMappedPort(9200)}`, stop: () => container.stop() };
}

async function startNode(): Promise<Running> {
  const cluster = await SearchCluster.start();
  return { url: cluster.url, stop: () => cluster.stop() };
}

/** Test files run in separate processes: they request the server from this process over HTTP. */
async function listen(answer: () => Promise<string>): Promise<Server> {
  const server = createServer((_request, response) => {
    answer().then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  server.listen(0, '127.0.0.1').unref();
  await once(server, 'listening');
  return server;
}

const addressOf = (server: Server): string => `http://127.0.0.1:${(server.address() as { port: number }).port}/`;

/** The remedies if neither is available: what enables nodes also enables a server. */
function remedies(lack = 'nothing more'): { server: string; nodes: string } {
  const server = `install ${lack}; or set ELASTICSEARCH_URL, or pull ${image}, which does for all but tests that hurt nodes`;
  return { server, nodes: `install ${lack}` };
}
