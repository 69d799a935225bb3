import { textFields, type Prospect, type ProspectFilters, type Suggestion } from '../../src/schemas/prospects.ts';
import { fold, words } from '../../src/text/fold.ts';

/** A simple in-memory implementation of the catalog by decisions §4. The tests compare both engines with it. */
export class Model {
  readonly people = new Map<string, Prospect>();
  readonly unlocked = new Map<string, Set<string>>();

  search(
    filters: ProspectFilters,
    order: { field: string; direction: string }[] | undefined,
    netNewFor?: string,
  ): Prospect[] {
    const keys = order ?? [{ field: 'score', direction: 'DESC' }];
    return [...this.people.values()]
      .filter(
        (person) =>
          matches(person, filters) && !(netNewFor !== undefined && this.unlocked.get(netNewFor)?.has(person._id)),
      )
      .sort((one, other) => {
        for (const { field, direction } of keys) {
          const difference = compareNullsLast(sortedBy(one, field), sortedBy(other, field), direction === 'DESC');
          if (difference !== 0) return difference;
        }
        return compare(one._id, other._id);
      });
  }

  suggest(source: string, search: string): Suggestion[] {
    const wanted = words(search);
    if (wanted.length === 0 && fold(search) !== '') return [];
    return (source === 'all' ? [...textFields] : [source as (typeof textFields)[number]])
      .flatMap((member) => this.#values(member))
      .filter(({ folded }) => wanted.every((start) => words(folded).some((word) => word.startsWith(start))))
      .sort(
        (one, other) => other.people - one.people || compare(one.value, other.value) || compare(one.type, other.type),
      )
      .slice(0, 10)
      .map(({ type, value }) => ({ type, value }));
  }

  #values(member: (typeof textFields)[number]) {
    const spellings = Map.groupBy(
      [...this.people.values()].map((person) => person[member] ?? '').filter((value) => fold(value) !== ''),
      fold,
    );
    return [...spellings].map(([folded, all]) => {
      const counts = [...Map.groupBy(all, (value) => value)].map(([value, same]) => ({ value, people: same.length }));
      counts.sort((one, other) => other.people - one.people || compare(one.value, other.value));
      return { type: member, folded, value: counts[0]!.value, people: all.length };
    });
  }
}

function matches(person: Prospect, filters: ProspectFilters): boolean {
  return Object.entries(filters).every(([key, asked]) => {
    if (key === 'date_verified' || key === 'score')
      return within(sortedBy(person, key), asked as { gte?: null; lte?: null });
    if (key === 'has_email') return (person.work_email !== '' || person.emails.length > 0) === asked;
    if (key === 'has_phone') return (person.mobile_phone !== null) === asked;
    const values = asked as string[];
    if (values.length === 0) return true;
    const text = (person[key as keyof Prospect] ?? '') as string;
    if (!key.startsWith('job_')) return values.some((value) => fold(value) === fold(text));
    const has = words(text);
    return values.map(words).some((wanted) => wanted.length > 0 && wanted.every((word) => has.includes(word)));
  });
}

function within(
  value: string | number | null,
  { gte, lte }: { gte?: string | number | null; lte?: string | number | null },
): boolean {
  return !(gte !== undefined && gte !== null && value! < gte) && !(lte !== undefined && lte !== null && value! > lte);
}

function sortedBy(person: Prospect, field: string): string | number | null {
  if (field === 'has_email') return Number(person.work_email !== '' || person.emails.length > 0);
  if (field === 'has_phone') return Number(person.mobile_phone !== null);
  const value = person[field as keyof Prospect] as string | number | null;
  return (textFields as readonly string[]).includes(field) && value !== null ? fold(value as string) : value;
}

function compareNullsLast(one: string | number | null, other: string | number | null, descending: boolean): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return descending ? compare(other, one) : compare(one, other);
}

const compare = (one: string | number, other: string | number): number =>
  typeof one === 'string' ? Buffer.compare(Buffer.from(one), Buffer.from(String(other))) : one - Number(other);
