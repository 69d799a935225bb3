import type { Prospect } from '../../schemas/prospects.ts';
import { withUnicodeDomain } from '../../text/email-domains.ts';
import { canonicalId } from '../../text/ids.ts';
import { emailKey } from '../../text/normalise.ts';
import { formerProfileKey, profileKey } from '../../text/profiles.ts';

/** What identifies a person in the catalog. */
export const identifierKinds = ['email', 'profnet_url', 'id'] as const;
export type IdentifierKind = (typeof identifierKinds)[number];

export interface Identifier {
  kind: IdentifierKind;
  /** In the form in which identifiers are compared. */
  value: string;
  /** The form in which earlier releases compared it, if it differs: digests that they stored are of this form. */
  former?: string;
}

/** What the identifiers of a person are read from. */
export type Identified = Pick<Prospect, '_id' | 'work_email' | 'emails' | 'profnet_url'>;

/** Converts a value to the form in which identifiers are compared. Undefined if it identifies nobody. */
export function toIdentifier(kind: IdentifierKind, text: string): Identifier | undefined {
  const value = keys[kind](text);
  if (value === undefined) return undefined;
  const former = kind === 'email' ? withUnicodeDomain(value) : kind === 'profnet_url' ? formerProfileKey(text) : value;
  return former === value ? { kind, value } : { kind, value, former };
}

const keys: Record<IdentifierKind, (text: string) => string | undefined> = {
  email: (text) => (text.includes('@') ? emailKey(text) : undefined),
  profnet_url: profileKey,
  id: canonicalId,
};

/** Returns the forms of an identifier of which digests can be stored. */
export const formsOf = ({ value, former }: Identifier): string[] => (former === undefined ? [value] : [value, former]);

/** Returns how an identifier is usually written, in lower case: texts that contain none of these do not contain it. */
export const spellingsOf = (identifier: Identifier): string[] => [
  ...new Set([
    ...formsOf(identifier),
    ...(identifier.kind === 'profnet_url' ? [encodeURI(identifier.value.toWellFormed()).toLowerCase()] : []),
  ]),
];

/** All identifiers of a person, each once: the id, the profile and every e-mail address. */
export function identifiersOf({ _id, work_email, emails, profnet_url }: Identified): Identifier[] {
  const addresses = [work_email, ...emails].flatMap((email) => toIdentifier('email', email) ?? []);
  const profile = profnet_url === null ? undefined : toIdentifier('profnet_url', profnet_url);
  return [
    { kind: 'id', value: _id },
    ...(profile ? [profile] : []),
    ...new Map(addresses.map((address) => [address.value, address])).values(),
  ];
}

/** Returns the values of the identifiers of one kind, each once. */
export const valuesOf = (identifiers: readonly Identifier[], kind: IdentifierKind): string[] => [
  ...new Set(identifiers.filter((own) => own.kind === kind).map(({ value }) => value)),
];
