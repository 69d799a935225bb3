import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { Webhook } from 'standardwebhooks';
import { endpointCreation, type Issued } from '../../../src/accounts/webhooks.ts';
import { commandLine } from '../../../src/schemas/accounts.ts';
import { addToJournal } from '../../../src/queries/records/journal.ts';
import { eventTypes, type EventSource, type EventType } from '../../../src/schemas/events.ts';
import type { TestApp } from '../../setup/app.ts';
import { atEnd } from '../../setup/at-end.ts';
import { dbOf } from '../../setup/factories.ts';

/** Webhooks are sent to receivers on loopback only. */
export const loopback = {
  WEBHOOK_ALLOW_HTTP: 'on',
  WEBHOOK_ALLOW_PRIVATE: 'on',
  WEBHOOK_DENY: '0.0.0.0/2,64.0.0.0/3,96.0.0.0/4,112.0.0.0/5,120.0.0.0/6,124.0.0.0/7,126.0.0.0/8,128.0.0.0/1,2000::/3',
};

/** A POST as a receiver got it. */
export interface Received {
  at: number;
  headers: IncomingMessage['headers'];
  body: string;
  event: { id: string; type: string; occurred_at: string; data: Record<string, unknown> };
}

type Answer = (response: ServerResponse, received: Received, request: IncomingMessage) => void;

export interface Receiver {
  url: string;
  received: Received[];
  /** Answers later requests. Default: status 200. */
  answer: Answer;
  /** Requests that have no answer yet. */
  open: number;
  maxOpen: number;
}

export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  (response) =>
    response.writeHead(code, headers).end();

/** Starts a receiver on loopback. */
export async function startReceiver(answer: Answer = status(200)): Promise<Receiver> {
  const receiver: Receiver = { url: '', received: [], answer, open: 0, maxOpen: 0 };
  const server = createServer((request, response) => {
    receiver.open += 1;
    receiver.maxOpen = Math.max(receiver.maxOpen, receiver.open);
    response.on('close', () => (receiver.open -= 1));
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const body = Buffer.concat(parts).toString();
      const received = { at: Date.now(), headers: request.headers, body, event: JSON.parse(body) };
      receiver.received.push(received);
      receiver.answer(response, received, request);
    });
  });
  atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return receiver;
}

/** Creates an endpoint of a customer. */
export async function makeEndpoint(
  { fastify, config }: TestApp,
  customerId: string,
  url: string,
  { types = [...eventTypes], bulk = false }: { types?: EventType[]; bulk?: boolean } = {},
): Promise<Issued> {
  const db = dbOf(fastify);
  return db.transaction(await endpointCreation({ db, config, customerId, by: commandLine }, { url, types, bulk }));
}

/** Records events of a customer, as a transaction that makes these changes does. */
export async function record(
  { db }: TestApp,
  customerId: string,
  events: (readonly [type: EventType, data?: object])[],
  source: EventSource = 'api',
): Promise<void> {
  const given = events.map(([type, data = {}]) => ({ type, data }));
  await db.for({ customerId }, source).transaction(async (sql) => addToJournal(sql, customerId, given));
}

/** Throws unless the message is signed with the secret. */
export const verify = (secret: string, { body, headers }: Received): unknown =>
  new Webhook(secret).verify(body, headers as Record<string, string>);
