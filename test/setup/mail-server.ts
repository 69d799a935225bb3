import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { afterAll } from 'vitest';

/** A mail server on loopback that behaves well, and what it was asked. */
export interface MailServer {
  port: number;
  /** Recipients it was asked for, in order. */
  recipients: string[];
  /** Whom the mail would have been from, and what callers called themselves. */
  senders: string[];
  names: string[];
  /** When callers came (ms). */
  calls: number[];
  /** Whether anybody sent mail. */
  gotMail: boolean;
}

const closing: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
});

/** Callers that wait for each other: how many were here at once, and a gate each of them passes. */
export interface Crowd {
  mostAtOnce: number;
  pass: () => Promise<void>;
}

/**
 * Holds callers until `size` of them are here, and a little longer for one too many to come: however slow the machine,
 * a limit of `size` shows as exactly that.
 */
export function gather(size: number): Crowd {
  let here = 0;
  let complete = () => undefined as void;
  const together = new Promise<void>((resolve) => (complete = resolve)).then(() => sleep(100));
  const crowd: Crowd = {
    mostAtOnce: 0,
    pass: async () => {
      here += 1;
      crowd.mostAtOnce = Math.max(crowd.mostAtOnce, here);
      if (here === size) complete();
      await together;
      here -= 1;
    },
  };
  return crowd;
}

/**
 * Starts a mail server.
 * @param judge what it says to a recipient: nothing to take it, else how it refuses
 */
export async function startMailServer(
  judge: (
    recipient: string,
  ) => { code: number; text: string } | undefined | Promise<{ code: number; text: string } | undefined>,
  options: SMTPServerOptions = {},
): Promise<MailServer> {
  const seen: MailServer = {
    port: 0,
    recipients: [],
    senders: [],
    names: [],
    calls: [],
    gotMail: false,
  };
  const answer = async (recipient: string, done: (error?: Error) => void) => {
    const refusal = await judge(recipient);
    done(refusal && Object.assign(new Error(refusal.text), { responseCode: refusal.code }));
  };
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['AUTH', 'STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    onConnect: (_session, done) => {
      seen.calls.push(performance.now());
      done();
    },
    onMailFrom: ({ address }, session, done) => {
      seen.senders.push(address);
      seen.names.push(session.hostNameAppearsAs);
      done();
    },
    onRcptTo: ({ address }, _session, done) => {
      seen.recipients.push(address);
      void answer(address, done);
    },
    onData: (_stream, _session, done) => {
      seen.gotMail = true;
      done();
    },
    ...options,
  });
  server.on('error', () => undefined);
  const listener = server.listen(0, '127.0.0.1');
  closing.push(() => new Promise<void>((resolve) => server.close(resolve)));
  await new Promise((resolve) => listener.once('listening', resolve));
  seen.port = (listener.address() as AddressInfo).port;
  return seen;
}

/** A server that says and does anything to who calls it. */
export interface RudeServer {
  port: number;
  /** All that callers said. */
  heard: string[];
  calls: number;
  /** Callers that are there. */
  callers: Set<Socket>;
}

/** Starts a server that behaves as `behave` does. */
export async function startRudeServer(behave: (socket: Socket, call: number) => void): Promise<RudeServer> {
  const seen: RudeServer = { port: 0, heard: [], calls: 0, callers: new Set() };
  const server: Server = createServer((socket) => {
    seen.callers.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => seen.callers.delete(socket));
    socket.on('data', (data) => seen.heard.push(data.toString('utf8')));
    seen.calls += 1;
    behave(socket, seen.calls);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    for (const socket of seen.callers) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  seen.port = (server.address() as AddressInfo).port;
  return seen;
}

/** A behaviour: a banner, then a reply to each command, by the command's verb; without one the command stays unanswered. */
export const scripted =
  (banner: string | undefined, replies: Record<string, string | ((socket: Socket) => void)>) =>
  (socket: Socket): void => {
    if (banner !== undefined) socket.write(banner);
    socket.on('data', (data) => {
      for (const line of data.toString('utf8').split('\r\n').filter(Boolean)) {
        const verb = line.split(/[ :]/)[0]!.toUpperCase();
        const reply = replies[verb] ?? (verb === 'QUIT' ? '221 bye\r\n' : undefined);
        if (typeof reply === 'function') reply(socket);
        else if (reply !== undefined) socket.write(reply);
        if (verb === 'QUIT') socket.end();
      }
    });
  };
