import type { Prospect } from '../../schemas/prospects.ts';
import { canonicalId } from '../../text/ids.ts';
import { emailKey, isPlaceholder, profileKey } from '../../text/normalise.ts';

/** What identifies a person in the catalog. */
export const identifierKinds = ['email', 'profnet_url', 'id'] as const;
export type IdentifierKind = (typeof identifierKinds)[number];

export interface Identifier {
  kind: IdentifierKind;
  /** In the form in which identifiers are compared. */
  value: string;
}

/** What the identifiers of a person are read from. */
export type Identified = Pick<Prospect, '_id' | 'work_email' | 'emails' | 'profnet_url'>;

/** Converts a value to the form in which identifiers are compared. Undefined if it identifies nobody. */
export function toIdentifier(kind: IdentifierKind, text: string): Identifier | undefined {
  const value = keys[kind](text);
  return value === undefined ? undefined : { kind, value };
}

const keys: Record<IdentifierKind, (text: string) => string | undefined> = {
  email: (text) => (text.includes('@') ? emailKey(text) : undefined),
  profnet_url: (text) => (isPlaceholder(text) ? undefined : profileKey(text)),
  id: canonicalId,
};

/** All identifiers of a person, each once: the id, the profile and every e-mail address. */
export function identifiersOf({ _id, work_email, emails, profnet_url }: Identified): Identifier[] {
  const addresses = new Set([work_email, ...emails].flatMap((email) => keys.email(email) ?? []));
  const profile = profnet_url === null ? undefined : toIdentifier('profnet_url', profnet_url);
  return [
    { kind: 'id', value: _id },
    ...(profile ? [profile] : []),
    ...[...addresses].map((value): Identifier => ({ kind: 'email', value })),
  ];
}

/** Returns the values of the identifiers of one kind, each once. */
export const valuesOf = (identifiers: readonly Identifier[], kind: IdentifierKind): string[] => [
  ...new Set(identifiers.filter((own) => own.kind === kind).map(({ value }) => value)),
];
