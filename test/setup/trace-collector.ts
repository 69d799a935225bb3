import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { atEnd } from './at-end.ts';

/** A span as a collector gets it in the JSON form of the protocol. */
export interface CollectedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  status: { code?: number; message?: string };
  attributes: Record<string, unknown>;
  events: unknown[];
  links: { traceId: string; spanId: string }[];
  /** The properties of the process that recorded the span. */
  resource: Record<string, unknown>;
}

/** A collector of traces on loopback (OTLP over HTTP). */
export interface TraceCollector {
  url: string;
  /** The spans that arrived as JSON. */
  spans: CollectedSpan[];
  /** The bodies of all requests. */
  bodies: Buffer[];
  requests: IncomingMessage[];
}

const accept = (response: ServerResponse): void =>
  void response.setHeader('content-type', 'application/json').end('{}');

/**
 * Starts a collector.
 * @param answer sends the response to each request; by default it accepts the spans
 */
export async function startCollector(answer: (response: ServerResponse) => void = accept): Promise<TraceCollector> {
  const server = createServer();
  const collector: TraceCollector = { url: '', spans: [], bodies: [], requests: [] };
  const receive = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await buffer(request);
    collector.requests.push(request);
    collector.bodies.push(body);
    if (request.headers['content-type'] === 'application/json') collector.spans.push(...spansOf(body));
    answer(response);
  };
  server.on('request', (request: IncomingMessage, response: ServerResponse) => void receive(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  collector.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return collector;
}

interface RawAttribute {
  key: string;
  value: Record<string, unknown>;
}

interface RawSpan extends Omit<CollectedSpan, 'attributes' | 'resource' | 'events' | 'links'> {
  attributes?: RawAttribute[];
  events?: unknown[];
  links?: CollectedSpan['links'];
}

interface RawExport {
  resourceSpans: { resource: { attributes: RawAttribute[] }; scopeSpans: { spans: RawSpan[] }[] }[];
}

const valuesOf = (attributes: RawAttribute[] = []): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));

const spansOf = (body: Buffer): CollectedSpan[] =>
  (JSON.parse(body.toString()) as RawExport).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        attributes: valuesOf(span.attributes),
        events: span.events ?? [],
        links: span.links ?? [],
        resource: valuesOf(resource.attributes),
      })),
    ),
  );
