// Receives webhooks: verifies that each is from the service, and handles each event once.
//
//   WEBHOOK_SECRET=whsec_… node webhook-receiver.ts events.db 8080
//
// Put it behind a proxy with TLS, and create an endpoint with its URL. The service sends an event again until it gets a
// status from 200 to 299 within 15 seconds, so an event can come twice, and after later ones.
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DatabaseSync } from 'node:sqlite';
import { verifyWebhook, WebhookVerificationError, type FeedEvent } from 'sales-data-client';

const [file = 'events.db', port = '8080'] = process.argv.slice(2);
const secret = process.env['WEBHOOK_SECRET']!;
const db = new DatabaseSync(file, { timeout: 5_000 });
db.exec(`
  create table if not exists handled (id text primary key, at text not null default current_timestamp);
  delete from handled where at < datetime('now', '-40 days')`);
const note = db.prepare('insert or ignore into handled (id) values (?)');

/** Your own work. What it writes belongs into the same transaction as the note, so that neither is there alone. */
function handle({ type, data }: FeedEvent): void {
  console.log(type, data.id ?? '', data.changed?.join(',') ?? '');
}

/** Handles an event, unless it was handled before. */
function handleOnce(event: FeedEvent): void {
  db.exec('begin immediate');
  try {
    if (note.run(event.id).changes > 0) handle(event);
    db.exec('commit');
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}

/** Reads a body as it was sent, because exactly that is signed. */
async function bodyOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > 65_536) return undefined; // an event is smaller
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function statusOf(request: IncomingMessage): Promise<number> {
  const body = await bodyOf(request);
  if (!body) return 413;
  try {
    handleOnce(await verifyWebhook(body, request.headers, secret));
    return 204;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return 401;
    throw error;
  }
}

const server = createServer((request, response) => {
  void statusOf(request)
    .catch((error: unknown) => {
      console.error(error);
      return 500; // the service sends it again
    })
    .then((status) => response.writeHead(status).end());
});
server.listen(Number(port), '127.0.0.1', () => console.log('port', (server.address() as AddressInfo).port));
