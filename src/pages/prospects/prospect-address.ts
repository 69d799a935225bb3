import type { FastifyRequest } from 'fastify';
import { validationFailed } from '../../errors.ts';
import { textFields, type ProspectFilters, type TextField } from '../../schemas/prospects.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { findUnstorableText } from '../../text/unstorable.ts';
import { countryCodes } from '../../files/values/country-codes.ts';
import { fold } from '../../text/fold.ts';
import { text, type Fields } from '../base/forms.ts';
import { countryName } from '../base/values.ts';

export const section = '/app/prospects';

/** The text fields of the search, in the order of the page. */
export const searched = [
  'job_title',
  'job_company_name',
  'job_company_industry',
  'location_country',
  'location_region',
  'location_locality',
] as const satisfies readonly TextField[];

const choices = ['status', 'score', 'has_email', 'has_phone', 'all'] as const;

/** What the page of prospects shows; by name of the parameter, without empty ones. */
export type ProspectView = Readonly<Record<string, string>>;

/** @throws DomainError `validation_failed` if a value cannot be stored, and so cannot be searched for */
export function prospectViewOf(fields: Fields): ProspectView {
  const names: readonly string[] = [...textFields, ...choices];
  const view = Object.fromEntries(
    names.map((name) => [name, text(fields, name).trim()] as const).filter(([, value]) => value !== ''),
  );
  const faults = findUnstorableText(view);
  if (faults.length > 0) throw validationFailed(faults);
  return view;
}

export const prospectViewOfRequest = ({ query }: FastifyRequest): ProspectView =>
  prospectViewOf((query ?? {}) as Fields);

type VerificationStatus = (typeof verificationStatuses)[number];

/** Several values of a text field are separated by semicolons; one of them is enough. */
export async function prospectFiltersOf(view: ProspectView): Promise<ProspectFilters> {
  const texts: [TextField, string[]][] = [];
  for (const name of textFields) {
    const values = (view[name] ?? '').split(';').map((value) => value.trim());
    const given = values.filter((value) => value !== '');
    if (given.length > 0) texts.push([name, name === 'location_country' ? await withEnglishNames(given) : given]);
  }
  const { status, score } = view;
  return {
    ...Object.fromEntries(texts),
    ...(status ? { verification_status: [status as VerificationStatus] } : {}),
    // A text that is not a number stays one, so that the validation refuses it.
    ...(score ? { score: { gte: /^\d{1,3}$/.test(score) ? Number(score) : (score as never) } } : {}),
    ...(view['has_email'] ? { has_email: true } : {}),
    ...(view['has_phone'] ? { has_phone: true } : {}),
  };
}

/** Adds the English name of each country, because the catalog has that one: `Germany` for `Deutschland` or `DE`. */
async function withEnglishNames(countries: readonly string[]): Promise<string[]> {
  if (countries.length > maxCountries) return [...countries]; // refused by the schema
  const codeOf = await countryCodes();
  const named = countries.flatMap((given) => [given, ...nameOf(codeOf(given))]);
  return [...new Map(named.map((name) => [fold(name), name])).values()];
}

const nameOf = (code: string): string[] => (code === '' ? [] : [countryName(code)]);

const maxCountries = 100;

export function prospectAddress(path: string, view: ProspectView, more: Record<string, string> = {}): string {
  const parameters = new URLSearchParams({ ...view, ...more }).toString();
  return parameters === '' ? path : `${path}?${parameters}`;
}

/** An address with more companies can be longer than servers take (characters). */
const maxNames = 2_000;

/** Returns the address of the people in the catalog who work for these companies, or for the first of them. */
export function peopleOfCompanies(names: readonly string[]): string {
  // A semicolon separates names, so of a name with one, its longest part is searched for.
  const parts = names.map((name) =>
    name
      .split(';')
      .toSorted((a, b) => b.length - a.length)[0]!
      .trim(),
  );
  let length = 0;
  const some = parts.filter((name) => (length += name.length) <= maxNames).slice(0, 100);
  return prospectAddress(section, { job_company_name: some.join('; ') });
}
