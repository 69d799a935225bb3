import { validationFailed } from '../../errors.ts';
import { countryCodes } from '../../files/values/country-codes.ts';
import type { ProspectMatch, ProspectMatches } from '../../schemas/clean-data/matching.ts';
import { maskLocked, type ProspectServices } from '../prospects.ts';
import { matchPeople, type Match, type Wanted } from './match-people.ts';

/**
 * Finds people in the catalog. Contact data of prospects that the customer has not unlocked is masked.
 * @throws DomainError `validation_failed` if a person has neither a profile URL nor names and a company; `unavailable` if
 *   the catalog does not respond in time
 */
export async function matchProspects(
  services: ProspectServices,
  customerId: string,
  { people }: ProspectMatch,
): Promise<ProspectMatches> {
  const lacking = people.flatMap((person, i) =>
    identifiesSomebody(person)
      ? []
      : [{ path: `/people/${i}`, message: 'needs a profile URL, or both names and a company' }],
  );
  if (lacking.length > 0) throw validationFailed(lacking);
  const matches = await matchPeople(services.catalog, people, await countryCodes());
  const found = await maskLocked(
    services,
    customerId,
    matches.flatMap((match) => match.found),
  );
  const shown = new Map(found.map((prospect) => [prospect._id, prospect]));
  return { results: matches.map((match, index) => resultOf(index, match, (id) => shown.get(id)!)) };
}

const identifiesSomebody = ({ profnet_url, first_name, last_name, company_name }: Wanted): boolean =>
  isGiven(profnet_url) || (isGiven(first_name) && isGiven(last_name) && isGiven(company_name));

const isGiven = (text: string | null | undefined): boolean => (text ?? '').trim() !== '';

type Result = ProspectMatches['results'][number];

function resultOf(
  index: number,
  { found, matchedOn }: Match,
  shown: (id: string) => NonNullable<Result['prospect']>,
): Result {
  const matched_on = matchedOn as Result['matched_on'];
  const [first, ...others] = found.map(({ _id }) => shown(_id));
  if (!first) return { index, status: 'none', matched_on };
  if (others.length === 0) return { index, status: 'matched', prospect: first, matched_on };
  return { index, status: 'ambiguous', candidates: [first, ...others], matched_on };
}
