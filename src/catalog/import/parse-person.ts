import { isInstant } from '../../schemas/base/formats.ts';
import { maxSourceLength, type Prospect, type TextField } from '../../schemas/prospects.ts';
import { verificationStatuses } from '../../schemas/verification.ts';
import { isStorable, lengthOf } from '../../text/code-points.ts';
import { fold } from '../../text/fold.ts';
import { canonicalId } from '../../text/ids.ts';
import { profileKey } from '../../text/profiles.ts';
import { maxFoldedLength } from '../document.ts';
import type { PersonId, PersonIds } from './person-ids.ts';

/** Not checked yet. */
export type ImportedFields = Readonly<Record<string, unknown>>;

export class InvalidRecord extends Error {}

const maxLength = { text: 255, url: 2048, email: 254, emails: 50, source: maxSourceLength };

/**
 * Converts a record to a prospect. Missing, null and empty fields become `""`, null, `[]` or a default. Unknown fields
 * are ignored, texts trimmed.
 * @param importedAt `date_verified` (ISO 8601) of a record that has none
 * @returns the prospect, and the id that earlier releases computed for it, if it differs
 * @throws InvalidRecord
 */
export function parsePerson(
  fields: ImportedFields,
  { importedAt, ids }: { importedAt: string; ids: PersonIds },
): { prospect: Prospect; formerId: string | undefined } {
  const work_email = text(fields, 'work_email', maxLength.email);
  const profnet_url = optional(fields, 'profnet_url', maxLength.url);
  const { id, former } = idOf(fields, { ids, profnet_url, work_email });
  const prospect = {
    _id: id,
    first_name: foldable(fields, 'first_name'),
    last_name: foldable(fields, 'last_name'),
    job_title: foldable(fields, 'job_title'),
    job_company_name: foldable(fields, 'job_company_name'),
    job_company_industry: foldable(fields, 'job_company_industry'),
    work_email,
    emails: emails(fields['emails']),
    mobile_phone: optional(fields, 'mobile_phone', maxLength.text),
    location_locality: foldable(fields, 'location_locality'),
    location_region: foldable(fields, 'location_region'),
    location_country: foldable(fields, 'location_country'),
    location_postal_code: foldable(fields, 'location_postal_code') || null,
    social1_url: optional(fields, 'social1_url', maxLength.url),
    profnet_url,
    social2_url: optional(fields, 'social2_url', maxLength.url),
    verification_status: status(fields['verification_status']),
    score: score(fields['score']),
    date_verified: instant(fields, 'date_verified') ?? importedAt,
    ...provenance(fields),
  };
  return { prospect, formerId: former };
}

function provenance(fields: ImportedFields): Pick<Prospect, 'source' | 'collected_at'> {
  const source = text(fields, 'source', maxLength.source);
  const collected_at = instant(fields, 'collected_at');
  return { ...(source === '' ? {} : { source }), ...(collected_at === undefined ? {} : { collected_at }) };
}

function text(fields: ImportedFields, name: string, max: number): string {
  const value = fields[name] ?? '';
  if (typeof value !== 'string') throw new InvalidRecord(`${name} must be a string`);
  return storable(value, name, max);
}

function storable(value: string, name: string, max: number): string {
  const trimmed = value.trim();
  if (trimmed.length > max && lengthOf(trimmed) > max)
    throw new InvalidRecord(`${name} must have at most ${max} characters`);
  if (!isStorable(trimmed)) throw new InvalidRecord(`${name} must not contain a NUL character or a lone surrogate`);
  return trimmed;
}

const optional = (fields: ImportedFields, name: string, max: number): string | null => text(fields, name, max) || null;

function foldable(fields: ImportedFields, name: TextField): string {
  const value = text(fields, name, maxLength.text);
  // One character can fold to eighteen, so only texts longer than a certain length need the check.
  if (value.length > maxFoldedLength / 18 && fold(value).length > maxFoldedLength)
    throw new InvalidRecord(`${name} must have at most ${maxFoldedLength} characters when folded`);
  return value;
}

/** The field is an array, or a text with addresses separated by commas, semicolons or white space. */
function emails(value: unknown): string[] {
  const list = typeof value === 'string' ? value.split(/[\s,;]+/) : (value ?? []);
  if (!Array.isArray(list) || !list.every((email) => typeof email === 'string'))
    throw new InvalidRecord('emails must be an array of strings');
  const addresses = list.map((email) => storable(email, 'emails', maxLength.email)).filter((email) => email !== '');
  if (addresses.length > maxLength.emails)
    throw new InvalidRecord(`emails must have at most ${maxLength.emails} items`);
  return addresses;
}

function status(value: unknown): Prospect['verification_status'] {
  if (value === undefined || value === null || value === '') return 'unverified';
  const known = verificationStatuses.find((item) => item === value);
  if (!known) throw new InvalidRecord(`verification_status must be one of ${verificationStatuses.join(', ')}`);
  return known;
}

function score(value: unknown): number {
  if (value === undefined || value === null || value === '') return 0;
  const number = typeof value === 'string' && /^\d{1,3}$/.test(value.trim()) ? Number(value) : value;
  if (!Number.isInteger(number) || (number as number) < 0 || (number as number) > 100)
    throw new InvalidRecord('score must be a whole number from 0 to 100');
  return number as number;
}

function instant(fields: ImportedFields, name: string): string | undefined {
  const value = fields[name];
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string' && isCanonical(value)) return value;
  if (typeof value !== 'string' || !isInstant(value.trim()))
    throw new InvalidRecord(`${name} must be an RFC 3339 date-time with an offset`);
  return new Date(value.trim().toUpperCase()).toISOString();
}

/** True for exactly the form that the catalog stores, such as `2026-01-31T12:00:00.000Z`. */
function isCanonical(text: string): boolean {
  // Days 1 to 28 need only a regular expression, which is fast. The other days are checked with a `Date`.
  if (anyMonths.test(text)) return true;
  if (text.length !== 24 || text.startsWith('0000')) return false;
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString() === text;
}

const anyMonths = /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/**
 * Returns the record's `_id`, else a UUID computed from `profnet_url` if that is a profile, else one from `work_email`: a person who is
 * imported again gets the same id.
 */
function idOf(
  fields: ImportedFields,
  { ids, profnet_url, work_email }: { ids: PersonIds; profnet_url: string | null; work_email: string },
): PersonId {
  const id = fields['_id'] ?? '';
  const canonical = typeof id === 'string' ? canonicalId(id.trim()) : undefined;
  if (canonical !== undefined) return { id: canonical };
  if (typeof id !== 'string' || id.trim() !== '') throw new InvalidRecord('_id must be a UUID');
  // What many people have identifies nobody: they would replace each other.
  if (profnet_url !== null && profileKey(profnet_url) !== undefined) return ids.ofUrl(profnet_url);
  if (work_email.includes('@')) return ids.ofEmail(work_email);
  throw new InvalidRecord('needs one of _id, profnet_url, work_email');
}
