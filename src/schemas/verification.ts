import { Type, type Static } from '@sinclair/typebox';
import { Enum } from './wire.ts';

/** What is known of an e-mail address, of contacts, companies and prospects alike. */
export const verificationStatuses = [
  'unverified',
  'verified',
  'invalid',
  'accept_all',
  'disposable',
  'do_not_mail',
  'unknown',
] as const;

/** What a check of an address says. `unknown`: who was asked gave no answer that decides. */
const outcomes = ['passed', 'failed', 'unknown', 'not_checked'] as const;
const Outcome = <T extends string = never>(description: string, ...more: T[]) =>
  Enum<(typeof outcomes)[number] | T>([...outcomes, ...more], { description });
const Detail = (description: string) => Type.Optional(Type.String({ description }));

/** What was seen of an e-mail address, check by check. */
const Checks = Type.Object({
  syntax: Type.Object({
    status: Outcome('RFC 5321, with RFC 6531 for other scripts'),
    reason: Detail('what is wrong'),
  }),
  disposable: Type.Object({
    status: Outcome('failed: its domain, or one above it, hands out mailboxes to throw away'),
    domain: Detail('the domain that is listed'),
  }),
  role: Type.Object({
    status: Outcome('failed: it is read by whoever has a task, not by a person'),
    account: Detail('the account that is listed'),
  }),
  mx: Type.Object({
    status: Outcome('failed: its domain takes no mail; unknown: the resolver did not say'),
    host: Detail('the first mail server of the domain; the domain itself where it names none (RFC 5321, 5.1)'),
    reason: Detail('null_mx (RFC 7505), no_domain, no_records, address_literal, or what the resolver said'),
  }),
  smtp: Type.Object({
    status: Outcome(
      'whether the mail server takes mail for the address; accept_all: it does for any; not_checked: it was not asked',
      'accept_all',
    ),
    host: Detail('the mail server that was asked last'),
    code: Type.Optional(Type.Integer({ description: 'its reply code' })),
    enhanced_code: Detail('its enhanced status code (RFC 3463)'),
    reason: Detail('why it is unknown'),
  }),
});

/** The verification of an e-mail address. */
export const Verification = Type.Object(
  {
    status: Enum(
      verificationStatuses.filter((status) => status !== 'unverified'),
      {
        description:
          'what the first check says that decides, in the order of the checks: no address, invalid; disposable domain, ' +
          'disposable; role account, do_not_mail; no mail for the domain, invalid; mailbox refused, invalid; any mailbox ' +
          'taken, accept_all; no answer, unknown; all passed, verified. Where mail servers are not asked ' +
          '(`checks.smtp.status` is `not_checked`), verified says that the domain takes mail, not that the mailbox is there',
      },
    ),
    checks: Checks,
  },
  { title: 'Verification' },
);
export type Verification = Static<typeof Verification>;
export type VerificationChecks = Verification['checks'];
