import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { atEnd } from './at-end.ts';

/** A well-behaved mail server on loopback that records what it receives. */
export interface MailServer {
  port: number;
  /** Recipients that callers asked for, in order. */
  recipients: string[];
  /** Sender addresses and HELO names of the callers. */
  senders: string[];
  names: string[];
  /** Arrival times of callers (ms). */
  calls: number[];
  /** Whether a caller sent a mail. */
  gotMail: boolean;
}

/** A barrier for callers: counts how many are connected at once, and lets each pass. */
export interface Crowd {
  maxAtOnce: number;
  pass: () => Promise<void>;
}

/**
 * Holds callers until `size` of them are connected, and slightly longer so that one too many can arrive. A limit of
 * `size` then shows as exactly that, however slow the machine.
 */
export function gather(size: number): Crowd {
  let here = 0;
  let complete = () => undefined as void;
  const together = new Promise<void>((resolve) => (complete = resolve)).then(() => sleep(100));
  const crowd: Crowd = {
    maxAtOnce: 0,
    pass: async () => {
      here += 1;
      crowd.maxAtOnce = Math.max(crowd.maxAtOnce, here);
      if (here === size) complete();
      await together;
      here -= 1;
    },
  };
  return crowd;
}

/**
 * Starts a mail server.
 * @param judge returns the rejection for a recipient, or undefined to accept it
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
  atEnd(() => new Promise<void>((resolve) => server.close(resolve)));
  await new Promise((resolve) => listener.once('listening', resolve));
  seen.port = (listener.address() as AddressInfo).port;
  return seen;
}

/** A server that behaves in any given way towards its callers. */
export interface RudeServer {
  port: number;
  /** Everything that callers sent. */
  heard: string[];
  calls: number;
  /** The connected callers. */
  callers: Set<Socket>;
}

/** Starts a server with the behaviour `behave`. */
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
  atEnd(() => {
    for (const socket of seen.callers) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  seen.port = (server.address() as AddressInfo).port;
  return seen;
}

/**
 * Returns a behaviour: sends a banner, then the reply for each command, by its verb. A command without a reply stays
 * unanswered.
 */
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
