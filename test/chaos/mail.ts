import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type postgres from 'postgres';
import { startRudeServer } from '../setup/mail-server.ts';
import type { NameServer } from '../setup/name-server.ts';

/** How the mail server of a domain responds to a mailbox check. */
type Manner = 'prompt' | 'slow' | 'greylisting' | 'dying' | 'mute' | 'lying';

/** A mailbox that a mail server was asked about (RCPT), in lower case, and the time in milliseconds. */
export interface Asked {
  mailbox: string;
  at: number;
}

/** Mail servers of every behaviour, behind one port. */
export interface MailServers {
  port: number;
  /** One domain of each behaviour. */
  domains: string[];
  asked: Asked[];
}

const taken = '250 2.1.5 taken\r\n';
const known = /^(ada|bob|contact)/i;

/** The responses to RCPT, by behaviour. `isFirst` is false if the mailbox was asked about before. */
const manners: Record<Manner, (socket: Socket, mailbox: string, isFirst: boolean) => unknown> = {
  prompt: (socket, mailbox) => socket.write(known.test(mailbox) ? taken : '550 5.1.1 No such user\r\n'),
  slow: (socket, mailbox, isFirst) => sleep(600).then(() => manners.prompt(socket, mailbox, isFirst)),
  greylisting: (socket, mailbox, isFirst) =>
    isFirst ? socket.write('451 4.7.1 Greylisted, come again\r\n') : manners.prompt(socket, mailbox, isFirst),
  dying: (socket) => socket.destroy(),
  mute: () => undefined,
  lying: (socket) => socket.write(taken),
};

/** Starts one port that serves a domain of each behaviour. */
export async function startMailServers(names: NameServer): Promise<MailServers> {
  const byDomain = new Map<string, Manner>();
  for (const manner of Object.keys(manners) as Manner[])
    byDomain.set(names.name({ mx: [[10, names.name({ a: ['127.0.0.1'] })]] }), manner);
  const asked: Asked[] = [];
  const seen = new Set<string>();
  const answer = (socket: Socket, line: string): void => {
    const [, mailbox] = /^RCPT TO:<(.+)>/i.exec(line)?.map((part) => part.toLowerCase()) ?? [];
    if (mailbox === undefined) return void socket.write(/^QUIT/i.test(line) ? '221 bye\r\n' : '250 well\r\n');
    asked.push({ mailbox, at: performance.now() });
    manners[byDomain.get(mailbox.split('@')[1]!) ?? 'prompt'](socket, mailbox, !seen.has(mailbox));
    seen.add(mailbox);
  };
  const { port } = await startRudeServer((socket) => {
    socket.write('220 here\r\n');
    socket.on('data', (data) => {
      for (const line of data.toString('utf8').split('\r\n').filter(Boolean)) answer(socket, line);
    });
  });
  return { port, domains: [...byDomain.keys()], asked };
}

/** Milliseconds by which the mail server may see a request after its worker was killed. */
const lateness = 2_000;
/** Milliseconds that a worker holds a check at most before its result is stored: the limit for one address, and some. */
const longestHeld = 35_000;

/**
 * Returns the mailboxes that were checked more often than there are jobs with them, without a killed worker as the
 * reason. A kill loses all checks that workers hold, several of one mailbox if several jobs contain it. Each of them may
 * be repeated.
 * @param kills times at which workers were killed, in milliseconds
 */
export async function askedTooOften(owner: postgres.Sql, asked: Asked[], kills: number[]): Promise<object[]> {
  const rows = await owner<{ mailbox: string; jobs: number }[]>`
    select lower(btrim(i.item)) as mailbox, count(distinct j.id)::integer as jobs
    from jobs j
    join job_inputs i on i.customer_id = j.customer_id and i.job_id = j.id
    where j.type in ('verify_email', 'verify_list')
    group by 1`;
  const jobsOf = new Map(rows.map(({ mailbox, jobs }) => [mailbox, jobs]));
  const isLost = (at: number, last: number) =>
    kills.some((kill) => kill >= at - lateness && kill <= Math.min(last, at + longestHeld));
  return [...Map.groupBy(asked, ({ mailbox }) => mailbox)].flatMap(([mailbox, times]) => {
    const jobs = jobsOf.get(mailbox);
    // An invented mailbox, used to find out whether a domain accepts any recipient.
    if (jobs === undefined) return [];
    const last = times.at(-1)!.at;
    const excuses = times.slice(0, -1).filter(({ at }) => isLost(at, last)).length;
    return times.length > jobs + excuses ? [{ mailbox, jobs, times: times.map(({ at }) => at) }] : [];
  });
}
