import type { Prospect, TextField, WordField } from '../../schemas/prospects.ts';
import { usualSpelling, type CatalogDocument, type RequiredField } from '../document.ts';
import type { FieldCode } from '../field-codes.ts';
import { memoize } from '../memoize.ts';

/**
 * Splits a UUID into two signed 64-bit numbers, as decimal texts, which have the same order. Elasticsearch sorts
 * numbers faster than texts.
 */
export const idHalvesOf = (id: string): [high: string, low: string] => {
  const digits = id.replaceAll('-', '');
  return [halfOf(digits.slice(0, 16)), halfOf(digits.slice(16))];
};

/**
 * Converts 16 hexadecimal digits to a signed 64-bit number in the same order, as decimal text, because a JavaScript
 * number cannot hold it.
 */
const halfOf = (digits: string): string => (BigInt(`0x${digits}`) - middle).toString();
const middle = 2n ** 63n;

/** Stored, but never used to search or sort. */
type Details = Pick<
  Prospect,
  'work_email' | 'emails' | 'mobile_phone' | 'social1_url' | 'profnet_url' | 'social2_url' | 'source' | 'collected_at'
>;

/** Contains a text's original spelling only if it cannot be computed. */
export interface PersonSource
  extends
    Record<FieldCode<RequiredField>, string>,
    Record<`${FieldCode<WordField>}w`, string[]>,
    Partial<Record<`${FieldCode<TextField>}s`, string | undefined>>,
    Pick<Prospect, 'verification_status' | 'score'> {
  id_high: string;
  id_low: string;
  details: Details;
  p?: string | undefined;
  date_verified: number;
  has_email: 0 | 1;
  has_phone: 0 | 1;
  unlocked_by?: string[] | undefined;
  /** Keys by which the person is matched. Missing if an earlier release stored the person. */
  k?: string[] | undefined;
}

/**
 * One object literal serialises twice as fast as an object that is built in steps.
 * @param unlockedBy ids of the customers who have unlocked the person
 */
export const toSource = (
  { id, person, folded, words, spelled, has_email, has_phone, keys }: CatalogDocument,
  unlockedBy: string[],
): PersonSource => {
  const [id_high, id_low] = idHalvesOf(id);
  return {
    id_high,
    id_low,
    // JSON leaves out what is undefined.
    details: {
      work_email: person.work_email,
      emails: person.emails,
      mobile_phone: person.mobile_phone,
      social1_url: person.social1_url,
      profnet_url: person.profnet_url,
      social2_url: person.social2_url,
      source: person.source,
      collected_at: person.collected_at,
    } as Details,
    f: folded.first_name,
    l: folded.last_name,
    t: folded.job_title,
    n: folded.job_company_name,
    i: folded.job_company_industry,
    c: folded.location_locality,
    r: folded.location_region,
    y: folded.location_country,
    p: folded.location_postal_code ?? undefined,
    tw: words.job_title,
    nw: words.job_company_name,
    iw: words.job_company_industry,
    fs: spelled.first_name,
    ls: spelled.last_name,
    ts: spelled.job_title,
    ns: spelled.job_company_name,
    is: spelled.job_company_industry,
    cs: spelled.location_locality,
    rs: spelled.location_region,
    ys: spelled.location_country,
    ps: spelled.location_postal_code,
    verification_status: person.verification_status,
    score: person.score,
    date_verified: Date.parse(person.date_verified),
    has_email: has_email ? 1 : 0,
    has_phone: has_phone ? 1 : 0,
    k: keys,
    unlocked_by: unlockedBy.length > 0 ? unlockedBy : undefined,
  };
};

export const fromSource = (id: string, source: PersonSource): Prospect => ({
  _id: id,
  ...source.details,
  first_name: source.fs ?? spelledAsUsual(source.f),
  last_name: source.ls ?? spelledAsUsual(source.l),
  job_title: source.ts ?? spelledAsUsual(source.t),
  job_company_name: source.ns ?? spelledAsUsual(source.n),
  job_company_industry: source.is ?? spelledAsUsual(source.i),
  location_locality: source.cs ?? spelledAsUsual(source.c),
  location_region: source.rs ?? spelledAsUsual(source.r),
  location_country: source.ys ?? spelledAsUsual(source.y),
  location_postal_code: source.p === undefined ? null : (source.ps ?? spelledAsUsual(source.p)),
  verification_status: source.verification_status,
  score: source.score,
  date_verified: new Date(source.date_verified).toISOString(),
});

const spelledAsUsual = memoize(usualSpelling);
