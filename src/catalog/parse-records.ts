import { createHash, createHmac } from 'node:crypto';
import type { Database } from '../database/db.ts';
import { findPersonIdSecret, spellingsOf, type Identifier } from '../queries/jobs/catalog-imports.ts';
import { findUnlockingCustomers } from '../queries/jobs/unlocks.ts';
import type { Catalog } from './catalog.ts';
import { type CatalogDocument, maxFoldedLength, toDocument } from './document.ts';
import { isInstant } from '../schemas/formats.ts';
import { maxSourceLength, Prospect, type TextField } from '../schemas/prospects.ts';
import { verificationStatuses } from '../schemas/verification.ts';
import { isStorable, lengthOf, fold } from '../text/fold.ts';
import { canonicalId } from '../text/ids.ts';
import { profileKey } from '../text/domains.ts';
import { validationFailed } from '../errors.ts';
import { faultTexts, type RawRecord, type RecordFault } from '../files/record-formats.ts';

interface PersonId {
  id: string;
  former?: string;
}

export class PersonIds {
  readonly #secret: Buffer;

  constructor(secret: Buffer) {
    this.#secret = secret;
  }

  static async open(db: Database): Promise<PersonIds> {
    return new PersonIds(await db.lookup(findPersonIdSecret));
  }

  ofUrl(url: string): PersonId {
    return { id: uuidOfUrl(url.toLowerCase()) };
  }

  /**
   * Computes a UUIDv8 (RFC 9562 §5.8) from the address and the installation's secret, by HMAC-SHA-256. With a plain
   * hash, customers could test guessed addresses.
   */
  ofEmail(email: string): PersonId {
    const address = email.toLowerCase();
    const digest = createHmac('sha256', this.#secret).update(address).digest();
    return { id: toUuid(digest, 8), former: uuidOfUrl(`mailto:${address}`) };
  }

  allOf(identifier: Identifier): string[] {
    const { kind, value } = identifier;
    if (kind === 'id') return [value];
    if (kind === 'email')
      return spellingsOf(identifier).flatMap((address) => Object.values(this.ofEmail(address)) as string[]);
    const written = ['', 'http://', 'https://'].flatMap((scheme) =>
      spellingsOf(identifier).flatMap((url) => [`${scheme}${url}`, `${scheme}www.${url}`]),
    );
    return written.flatMap((url) => [this.ofUrl(url).id, this.ofUrl(`${url}/`).id]);
  }
}

const urlNamespace = Buffer.from('6ba7b8119dad11d180b400c04fd430c8', 'hex');

export const uuidOfUrl = (url: string): string =>
  toUuid(createHash('sha1').update(urlNamespace).update(url).digest(), 5);

function toUuid(digest: Buffer, version: number): string {
  const bytes = digest.subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | (version << 4);
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

export interface ImportedPerson {
  document: CatalogDocument;
  formerId: string | undefined;
}

/**
 * Returns the ids that an earlier release computed for these people, and that the catalog or an unlock contains. These
 * people keep their ids.
 */
export async function findKeptIds(
  db: Database,
  catalog: Pick<Catalog, 'findStored'>,
  people: readonly ImportedPerson[],
): Promise<ReadonlySet<string>> {
  const former = [...new Set(people.flatMap(({ formerId }) => formerId ?? []))];
  if (former.length === 0) return new Set();
  const [stored, unlocked] = await Promise.all([
    catalog.findStored(former),
    db.search((sql) => findUnlockingCustomers(sql, former)),
  ]);
  return new Set([...stored, ...unlocked.keys()]);
}

export const withKeptId = ({ document, formerId }: ImportedPerson, kept: ReadonlySet<string>): CatalogDocument =>
  formerId !== undefined && kept.has(formerId) ? { ...document, id: formerId } : document;

type ImportedFields = Readonly<Record<string, unknown>>;

class InvalidRecord extends Error {}

const maxLength = { text: 255, url: 2048, email: 254, emails: 50, source: maxSourceLength };

/**
 * Converts a record to a prospect. Missing, null and empty fields become `""`, null, `[]` or a default. Ignores unknown
 * fields, and trims texts.
 * @param importedAt `date_verified` (ISO 8601) of a record without one
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

function isCanonical(text: string): boolean {
  // Days 1 to 28 need only a regular expression, which is fast. The other days are checked with a `Date`.
  if (anyMonths.test(text)) return true;
  if (text.length !== 24 || text.startsWith('0000')) return false;
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString() === text;
}

const anyMonths = /^(?!0000)\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/**
 * Returns the record's `_id`. Without it, computes a UUID from `profnet_url` if that is a profile, otherwise from
 * `work_email`. The same person always gets the same id.
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

export type Format = 'ndjson' | 'csv';

export interface RecordReader {
  /**
   * @returns the person, an error message for an invalid record, or undefined for the CSV header
   * @throws DomainError `validation_failed` if the CSV header is unusable
   */
  read(record: RawRecord): ImportedPerson | string | undefined;
  isAtHeader(): boolean;
}

export function readerOf(format: Format, context: { importedAt: string; ids: PersonIds }): RecordReader {
  const header = format === 'csv' ? new CsvHeader() : undefined;
  const toGiven = (record: RawRecord): ImportedFields | undefined =>
    header ? header.read(record) : readJson(record.cells[0]!.text);
  return {
    isAtHeader: () => header?.isMissing === true,
    read: (record) => {
      if (record.fault !== undefined) {
        const fault = faults[record.fault];
        // Without its header, the rest of the file would be read with the wrong columns.
        if (header?.isMissing) throw badHeader(fault);
        return fault;
      }
      try {
        const given = toGiven(record);
        if (given === undefined) return undefined;
        const { prospect, formerId } = parsePerson(given, context);
        return { document: toDocument(prospect), formerId };
      } catch (error) {
        if (error instanceof InvalidRecord) return error.message;
        throw error;
      }
    },
  };
}

const faults: Record<RecordFault, string> = {
  ...faultTexts,
  'too long': 'is too long: more than 1 MiB',
  'open quote': 'has a quote that is never closed, or not within 1 MiB',
};

function readJson(text: string): ImportedFields {
  const given = parseJson(text);
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new InvalidRecord('is not a JSON object');
  return given as ImportedFields;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidRecord('is not valid JSON');
  }
}

class CsvHeader {
  #columns: string[] | undefined;
  #fields: string[] = [];

  get isMissing(): boolean {
    return this.#columns === undefined;
  }

  read({ cells, endsWithCr }: RawRecord): ImportedFields | undefined {
    const fields = cells.map(({ text }) => text);
    if (!this.#columns) {
      if (endsWithCr) throw badHeader('ends its lines with CR alone; they must end with LF or CR LF');
      this.#columns = columnsOf(fields);
      this.#fields = fields;
      return undefined;
    }
    const names = this.#columns;
    if (fields.length !== names.length)
      throw new InvalidRecord(`has ${fields.length} fields where the first line names ${names.length}`);
    if (fields.every((field, i) => field === this.#fields[i])) throw new InvalidRecord('repeats the first line');
    return Object.fromEntries(fields.map((field, i) => [names[i]!, field]));
  }
}

function columnsOf(fields: string[]): string[] {
  const columns = fields.map((field) => field.trim());
  if (!columns.some(isMember)) throw badHeader('names no field of a prospect');
  const twice = columns.find((column, i) => isMember(column) && columns.indexOf(column) !== i);
  if (twice !== undefined) throw badHeader(`names ${twice} twice`);
  return columns;
}

const isMember = (column: string): boolean => Object.hasOwn(Prospect.properties, column);

const badHeader = (fault: string) =>
  validationFailed([{ path: '', message: `the first line of the CSV file ${fault}` }]);
