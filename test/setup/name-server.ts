import { randomBytes } from 'node:crypto';
import { createServer, Packet } from 'dns2';
import { atEnd } from './at-end.ts';

/** The response for a name: its records by type, or a failure. */
export type NameAnswer =
  | { mx?: [priority: number, host: string][]; a?: string[]; aaaa?: string[] }
  | 'nxdomain'
  | 'servfail'
  | 'refused'
  | 'garbage'
  | 'silent';

/** A DNS server on loopback for the verifier. Names that were not set do not exist, but the default canaries do. */
export interface NameServer {
  /** While true, no name exists. */
  deniesAll: boolean;
  /** `address:port` */
  address: string;
  /** Sets the response for a domain; without a name, for a random one. */
  name(answer: NameAnswer, domain?: string): string;
  /** Returns the record types that were queried for a name. */
  asked(domain: string): string[];
}

/** Returns a random domain that does not exist: `.test` is reserved for that (RFC 6761). */
export const randomDomain = (): string => `d${randomBytes(8).toString('hex')}.test`;

const { TYPE, CLASS, RCODE } = Packet;
const typeNames = new Map(Object.entries(TYPE).map(([name, type]) => [type as number, name]));

/** Starts a DNS server for the tests of a file. */
export async function startNameServer(): Promise<NameServer> {
  const answers = new Map<string, NameAnswer>(
    ['gmail.com', 'outlook.com'].map((canary) => [canary, { mx: [[1, 'mail.test']] }]),
  );
  const questions: { name: string; type: string }[] = [];
  const server = createServer({
    udp: true,
    handle: (request, send) => {
      const [question] = request.questions;
      const name = question!.name.toLowerCase();
      questions.push({ name, type: typeNames.get(question!.type) ?? '?' });
      const answer = (self.deniesAll ? undefined : answers.get(name)) ?? 'nxdomain';
      if (answer === 'garbage') void send(garbageFor(request));
      else if (answer !== 'silent') void send(reply(request, answer));
    },
  });
  atEnd(() => server.close());
  const { udp } = await server.listen({ udp: { port: 0, address: '127.0.0.1' } });
  const self: NameServer = {
    deniesAll: false,
    address: `127.0.0.1:${udp!.port}`,
    name: (answer, domain = randomDomain()) => {
      answers.set(domain, answer);
      return domain;
    },
    asked: (domain) => questions.filter(({ name }) => name === domain).map(({ type }) => type),
  };
  return self;
}

const codes = { nxdomain: RCODE.NXDOMAIN, servfail: RCODE.SERVFAIL, refused: RCODE.REFUSED };

/** A DNS header that announces answers but is followed by none. */
function garbageFor(request: Packet): Buffer {
  const packet = Packet.createResponseFromRequest(request).toBuffer();
  packet.writeUInt16BE(9, 6);
  return Buffer.concat([packet, randomBytes(40)]);
}

function reply(request: Packet, answer: Exclude<NameAnswer, 'silent' | 'garbage'>): Packet {
  const packet = Packet.createResponseFromRequest(request);
  const { name, type } = request.questions[0]!;
  const add = (record: object) => packet.answers.push({ name, type, class: CLASS.IN, ttl: 300, ...record } as never);
  if (typeof answer === 'string') packet.header.rcode = codes[answer];
  else if (type === TYPE.MX) for (const [priority, exchange] of answer.mx ?? []) add({ priority, exchange });
  else if (type === TYPE.A) for (const address of answer.a ?? []) add({ address });
  else if (type === TYPE.AAAA) for (const address of answer.aaaa ?? []) add({ address });
  return packet;
}
