import { customKey } from '../schemas/filters.ts';
import { companySource, type Source } from './columns.ts';
import { constant, join, type Fragment, type FragmentMaker } from './sql.ts';
import { arrayLiteral, hasTextTerms, hasValueTerm, indexedKey, minTextLength, Terms } from './terms.ts';
import { toSql } from './to-sql.ts';
import { all, type Filter } from './tree.ts';

type Test<K extends Filter['kind']> = Extract<Filter, { kind: K }>;

/** What the conditions of one customer's filter need to become SQL. */
interface Printing {
  sql: FragmentMaker;
  source: Source;
  customerId: string;
  terms: Terms;
}

/**
 * Returns an SQL condition on the records' own table that indexes can answer. Every record that passes the filter meets
 * it; some other records can meet it too. Returns undefined if the indexes cannot narrow the filter down.
 */
export function candidateCondition(
  sql: FragmentMaker,
  source: Source,
  customerId: string,
  filter: Filter,
): Fragment | undefined {
  const narrowed = print({ sql, source, customerId, terms: new Terms(source, customerId) }, filter);
  return narrowed && sql`(${narrowed} or ${constant(sql, withoutTerms(source))})`;
}

/**
 * Returns the SQL condition that a record has no terms, or terms of an older version of it: an older program wrote it.
 * A partial index contains these records.
 */
const withoutTerms = ({ alias }: Source): string => `(${alias}.folded ->> '${indexedKey}') is null`;

function print(printing: Printing, filter: Filter): Fragment | undefined {
  const { sql } = printing;
  switch (filter.kind) {
    case 'all': {
      const parts = filter.of.map((one) => print(printing, one)).filter((part) => part !== undefined);
      return parts.length === 0 ? undefined : sql`(${join(sql, parts, 'and', 'true')})`;
    }
    case 'any': {
      const parts = filter.of.map((one) => print(printing, one));
      if (parts.length === 0 || !parts.every((part) => part !== undefined)) return undefined;
      return sql`(${join(sql, parts, 'or', 'false')})`;
    }
    case 'in':
      return filter.values.length === 0 ? undefined : printIn(printing, filter);
    case 'contains':
      return filter.text.length < minTextLength ? undefined : printPart(printing, filter);
    case 'search':
      return printSearch(printing, filter);
    default:
      return undefined;
  }
}

/** Fields that have a b-tree index with their plain value, so that their exact condition can be used. */
const ownIndexes: Record<Source['alias'], readonly string[]> = {
  c: ['id', 'external_id', 'score', 'verification_status'],
  co: ['id', 'external_id', 'score', 'verification_status'],
};

function printIn(printing: Printing, test: Test<'in'>): Fragment | undefined {
  const { sql, source, terms } = printing;
  const { field, values } = test;
  if (ownIndexes[source.alias].includes(field)) return toSql(sql, source, test);
  if (source.alias === 'c' && field === 'company_id') return sql`c.company_id = any(${values.map(String)}::uuid[])`;
  const ofCompany = companyField(field);
  if (source.alias === 'c' && ofCompany !== undefined)
    return values.includes('') ? undefined : printCompanies(printing, { ...test, field: ofCompany });
  if (!values.every((value) => hasValueTerm(source, field, value))) return undefined;
  const hashes = values.map((value) => terms.ofValue(field, value));
  return sql`${constant(sql, `${source.alias}.terms`)} && ${arrayLiteral(hashes)}::integer[]`;
}

function printPart(printing: Printing, test: Test<'contains'>): Fragment | undefined {
  const ofCompany = companyField(test.field);
  if (printing.source.alias === 'c' && ofCompany !== undefined)
    return printCompanies(printing, { ...test, field: ofCompany });
  return hasTextTerms(printing.source, test.field) ? hasParts(printing, test.field, test.text) : undefined;
}

/** The companies' field that a contact's field `company.<name>` shows. */
const companyField = (field: string): string | undefined =>
  field.startsWith('company.') && customKey(field) === undefined ? field.slice('company.'.length) : undefined;

/** Words that are too short for the index are left to the exact condition. */
function printSearch(printing: Printing, { words }: Test<'search'>): Fragment | undefined {
  const { sql, source } = printing;
  const parts = words
    .filter((word) => word.length >= minTextLength)
    .map((word) => {
      const own = hasParts(printing, 'search', word);
      if (source.alias === 'co') return own;
      return sql`(${own} or ${printCompanies(printing, { kind: 'contains', field: 'company_name', text: word, at: 'anywhere' })})`;
    });
  return parts.length === 0 ? undefined : sql`(${join(sql, parts, 'and', 'true')})`;
}

const hasParts = ({ sql, source, terms }: Printing, field: string, text: string): Fragment =>
  sql`${constant(sql, `${source.alias}.terms`)} @> ${arrayLiteral(terms.ofPart(field, text))}::integer[]`;

/** Returns the SQL condition that the contact's company passes a filter of companies. */
function printCompanies({ sql, customerId }: Printing, filter: Filter): Fragment {
  const candidates = candidateCondition(sql, companySource, customerId, filter) ?? constant(sql, 'true');
  return sql`c.company_id = any(array(
    select co.id
    from companies co
    where co.customer_id = ${customerId}::uuid
      and ${constant(sql, companySource.visible!)}
      and ${candidates}
      and ${toSql(sql, companySource, all([filter]))}
  ))`;
}
