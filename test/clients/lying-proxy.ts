import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

/** What the proxy does with a request instead of forwarding it faithfully. */
type Lie = 'busy' | 'cut';

/** A proxy that treats the first requests to some paths badly. */
export interface LyingProxy {
  url: string;
  /** The values of Idempotency-Key of the requests to a path, in their order. */
  keysOf(path: string): (string | undefined)[];
  close(): void;
}

/**
 * Starts an HTTP proxy. With the lie `busy` it answers 503 with `Retry-After: 1` and forwards nothing; with `cut` it forwards
 * the request, waits for the response, and closes the connection instead of sending it.
 * @param lies what happens to the first requests to a path, in their order; later ones are forwarded
 */
export async function startLyingProxy(target: string, lies: Record<string, Lie[]>): Promise<LyingProxy> {
  const keys: Record<string, (string | undefined)[]> = {};
  const handle = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const path = incoming.url!;
    (keys[path] ??= []).push(incoming.headers['idempotency-key'] as string | undefined);
    const body = await buffer(incoming);
    const lie = lies[path]?.shift();
    if (lie === 'busy') return void outgoing.writeHead(503, { 'retry-after': '1' }).end();
    const forwarded = request(new URL(path, target), { method: incoming.method!, headers: incoming.headers });
    forwarded.end(body);
    const [response] = (await once(forwarded, 'response')) as [IncomingMessage];
    if (lie === 'cut') {
      await buffer(response);
      return void outgoing.destroy();
    }
    response.pipe(outgoing.writeHead(response.statusCode!, response.headers));
  };
  const server = createServer((incoming, outgoing) => {
    handle(incoming, outgoing).catch(() => outgoing.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keysOf: (path) => keys[path] ?? [],
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
