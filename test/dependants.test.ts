import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

// A table that names a contact, company, list, product or opportunity must say what happens to its rows when that record
// is deleted. The columns are found in the schema, so that a new table is not forgotten.

/**
 * For each column that names a record which callers can delete: the module that deletes the row or clears the column when
 * the record is deleted, or why nothing has to.
 */
const dependants: Record<string, { in: string } | { because: string }> = {
  'contacts.company_id': { in: 'crm/deletions' },
  'opportunities.company_id': { in: 'crm/deletions' },
  'list_members.contact_id': { in: 'crm/list-members' },
  'list_members.list_id': { in: 'crm/deletions' },
  'opportunity_contacts.contact_id': { in: 'crm/links' },
  'opportunity_contacts.opportunity_id': { in: 'crm/opportunities' },
  'opportunity_lines.opportunity_id': { in: 'crm/opportunities' },
  'activities.contact_id': { in: 'crm/links' },
  'activities.company_id': { in: 'crm/links' },
  'activities.opportunity_id': { in: 'crm/links' },
  'activities.deleted_contact_id': { because: 'an undo gives it back' },
  'activities.deleted_company_id': { because: 'an undo gives it back' },
  'activities.deleted_opportunity_id': { because: 'an undo gives it back' },
  'opportunity_lines.product_id': { because: 'a product with lines is only marked as deleted' },
  'imports.list_ids': { because: 'an import ignores lists that no longer exist' },
  'job_inputs.contact_ids': { because: 'a job shows what it was asked, also after the contact is deleted' },
  'job_results.contact_id': { because: 'a job shows what it wrote, also after the contact is deleted' },
};

/** The columns of all tables that name a contact, company, list, product or opportunity. */
function referencesIn(schema: string): string[] {
  return [...schema.matchAll(/^create table (\w+) \((.*?)^\);/gms)].flatMap(([, table, body]) =>
    [...body!.matchAll(/^ {2}"?((?:\w+_)?(?:contact|company|list|product|opportunity)_ids?)"? /gm)].map(
      ([, column]) => `${table}.${column}`,
    ),
  );
}

test('a table that names a deletable record says what happens when the record is deleted', () => {
  const schema = readFileSync('sql/schema.sql', 'utf8');
  expect(referencesIn(schema).toSorted()).toEqual(Object.keys(dependants).toSorted());
});
