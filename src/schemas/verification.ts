import { Type, type Static, type TProperties } from '@sinclair/typebox';
import { Enum, Described, Named } from './wire.ts';

export const verificationStatuses = [
  'unverified',
  'verified',
  'invalid',
  'accept_all',
  'disposable',
  'do_not_mail',
  'unknown',
] as const;

export const VerificationStatus = () => Enum(verificationStatuses, { description: statusText });

const statusText =
  'What the last verification found. `unverified`: not checked yet; `verified`: accepts mail; `invalid`: does not; `accept_all`: its server accepts every ' +
  'address; `disposable`: a throw-away mailbox; `do_not_mail`: a role account such as info@; `unknown`: no clear answer.';

const outcomes = ['passed', 'failed', 'unknown', 'not_checked'] as const;
const Outcome = <T extends string = never>(description: string, ...more: T[]) =>
  Enum<(typeof outcomes)[number] | T>([...outcomes, ...more], { description });
const Detail = (description: string) => Type.Optional(Type.String({ description }));

const Check = <P extends TProperties>(description: string, properties: P) => Type.Object(properties, { description });

const Checks = Described('The outcome of every check. Checks that come after the deciding one are `not_checked`.', {
  syntax: Check('Whether the text is an e-mail address.', {
    status: Outcome('RFC 5321, with RFC 6531 for other scripts.'),
    reason: Detail('What is wrong.'),
  }),
  disposable: Check('Whether the domain is known for throw-away mailboxes.', {
    status: Outcome('`failed`: the domain, or a parent domain, offers disposable mailboxes.'),
    domain: Detail('The domain on the list of disposable domains.'),
  }),
  role: Check('Whether the address belongs to a role, such as `info` or `sales`.', {
    status: Outcome('`failed`: the address belongs to a role or team, not to a person.'),
    account: Detail('The account name on the list of role accounts.'),
  }),
  mx: Check('Whether the domain accepts mail.', {
    status: Outcome('`failed`: the domain accepts no mail; `unknown`: the resolver gave no answer.'),
    host: Detail('The first mail server of the domain; the domain itself if it has no MX record (RFC 5321, 5.1).'),
    reason: Detail('`null_mx` (RFC 7505), `no_domain`, `no_records`, `address_literal`, or the error of the resolver.'),
  }),
  smtp: Check('Whether the mail server accepts mail for the address.', {
    status: Outcome(
      '`accept_all`: the server accepts every address, so nothing is known of this one; `not_checked`: it was not asked.',
      'accept_all',
    ),
    host: Detail('The last mail server asked.'),
    code: Type.Optional(Type.Integer({ description: 'Its reply code.' })),
    enhanced_code: Detail('Its enhanced status code (RFC 3463).'),
    reason: Detail('Why the outcome is unknown.'),
  }),
});

export const Verification = Named('Verification', {
  status: Enum(
    verificationStatuses.filter((status) => status !== 'unverified'),
    {
      description:
        'The first check that decides sets the status. The order is: not an address: invalid; disposable domain: ' +
        'disposable; role account: do_not_mail; domain accepts no mail: invalid; mailbox rejected: invalid; every mailbox ' +
        'accepted: accept_all; no answer: unknown; all passed: verified. If mail servers are not asked ' +
        '(`checks.smtp.status` is `not_checked`), `verified` means that the domain accepts mail, not that the mailbox exists.',
    },
  ),
  checks: Checks,
  reused: Type.Optional(
    Type.Literal(true, {
      description: 'The address was verified before, or by another job at the same time. This result was free.',
    }),
  ),
});
export type Verification = Static<typeof Verification>;
export type VerificationChecks = Verification['checks'];
