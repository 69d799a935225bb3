import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { breaksOf, shapeOf } from './shape.ts';

// docs/versions.md: what a release promises to programs that were written for it.
const folder = join(import.meta.dirname, 'released');
const document = JSON.parse(await readFile(join(import.meta.dirname, 'openapi.json'), 'utf8'));

/**
 * What looks like a break and is none: more keys may read jobs and their end, and import files, a job of the new type `undo`
 * has no pool, and lists of products and opportunities take further filters.
 */
const allowed = [
  /^gone: op (GET|POST) \/api\/ext\/service-handler\/(\{id\}|list)\S* scopes payment_prospect:create verify_email:create list_contacts:read$/,
  /^gone: op POST \/api\/ext\/events\/list scopes /,
  /^gone: op (GET|POST|PUT|PATCH) \/api\/ext\/imports\S* scopes contacts:create contacts:update companies:create companies:update$/,
  /^gone: in OpportunityFilters\.(stage|company|contact)_id(\[\])?: /,
  /^gone: in (POST \/api\/ext\/products\/list {2}is )?PageQuery/,
  /^new: out ServiceJob\.credits\.pool: null$/,
];

test.each(await readdir(folder))('programs that were written for %s go on', async (file) => {
  const released = (await readFile(join(folder, file), 'utf8')).trim().split('\n');
  const breaks = breaksOf(released, shapeOf(document));
  expect(breaks.filter((one) => !allowed.some((pattern) => pattern.test(one)))).toEqual([]);
});

test.each<[string, (copy: typeof document) => void]>([
  ['a route', ({ paths }) => delete paths['/api/ext/contacts/{id}'].get],
  ['a member of a response', ({ components }) => delete components.schemas.Contact.properties.job_title],
  ['a member of a request', ({ components }) => delete components.schemas.ContactPatch.properties.job_title],
  ['a member that is not required', ({ components }) => components.schemas.ContactCreate.required.push('job_title')],
  ['a type', ({ components }) => (components.schemas.Contact.properties.job_title.type = ['string', 'null'])],
  ['a scope', ({ paths }) => (paths['/api/ext/contacts'].post['x-required-scopes'] = ['contacts:read'])],
])('a program that was written with %s that is not so any more breaks, and that is noticed', (_what, edit) => {
  const copy = structuredClone(document);
  edit(copy);
  expect(breaksOf(shapeOf(document), shapeOf(copy))).not.toEqual([]);
});
