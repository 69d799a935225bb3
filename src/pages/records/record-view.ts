import type { FastifyInstance } from 'fastify';
import { forMembers } from '../base/access.ts';
import { facts, html, moment, type Html } from '../base/html.ts';
import { sendPage } from '../base/layout.ts';
import { editLinks, savedNotice } from './editor.ts';
import { requireRecord, usersOf } from './record-edit.ts';
import { formText } from './record-form.ts';
import type { FormField, RecordKind, ShownRecord } from './record-kind.ts';
import { countryName, mailLink, phoneLink, webLink } from '../base/values.ts';
import { historyOf } from '../work/changes.ts';
import type { User } from '../../schemas/users.ts';

/** The page of one record, with every field in words. */
export function recordView<Row extends ShownRecord>(app: FastifyInstance, kind: RecordKind<Row>): void {
  const { path, noun } = kind;
  app.get(`${path.replace('/app', '')}/:id`, forMembers, async (request, reply) => {
    const found = await requireRecord(request, kind);
    const [users, related] = await Promise.all([usersOf(request), kind.related(request, reply, found)]);
    return sendPage(request, reply, {
      title: kind.nameOf(found),
      section: path,
      actions: editLinks(`${path}/${found.id}`),
      body: html`!${savedNotice(request, noun, { listed: `The ${noun}'s lists are changed.` })}
        !${groupsOf(kind, await valuesOf(kind, found, users))} !${ownFields(found)} !${related}
        <h2>History</h2>
        <div class="card">
          !${facts([
            ...kind.facts(found),
            ['Created', moment(found.created_at)],
            ['Last changed', moment(found.updated_at)],
          ])}
        </div>
        !${await historyOf(request, kind.object, found.id, users)}`,
    });
  });
}

type Values = ReadonlyMap<string, Html>;

async function valuesOf<Row extends ShownRecord>(
  kind: RecordKind<Row>,
  found: Row,
  users: readonly User[],
): Promise<Values> {
  const shown = kind.fields.map(
    async (one) => [one.name, valueOf(kind, one, await formText(one, found), found, users)] as const,
  );
  return new Map(await Promise.all(shown));
}

/** Returns a field's value as people write it. */
export function valueOf<Row extends ShownRecord>(
  { links }: RecordKind<Row>,
  { name, control }: FormField,
  given: string,
  found: Row,
  users: readonly User[],
): Html {
  if (given === '') return html`<span class="quiet">–</span>`;
  const link = links(found)[name];
  if (link !== undefined) return html`<a href="${link}">${given}</a>`;
  switch (control) {
    case 'country':
      return html`${countryName(given)}`;
    case 'user':
      return html`${users.find(({ id }) => id === given)?.name ?? given}`;
    case 'email':
      return mailLink(given);
    case 'url':
      return webLink(given);
    case 'lines':
    case 'phones':
      return given
        .split('\n')
        .map((line) => html`<span class="line">!${control === 'phones' ? phoneLink(line) : mailLink(line)}</span>`)
        .join('');
    default:
      return html`${given}`;
  }
}

const groupsOf = <Row extends ShownRecord>({ fields }: RecordKind<Row>, values: Values): Html =>
  html`<div class="groups">
    !${Object.entries(Object.groupBy(fields, ({ group }) => group)).map(
      ([group, members]) =>
        html`<section class="card">
          <h2>${group}</h2>
          !${facts(members!.map(({ name, label }) => [label, values.get(name)!] as const))}
        </section>`,
    )}
  </div>`;

const ownFields = ({ custom_fields }: ShownRecord): Html => {
  const entries = Object.entries(custom_fields);
  if (entries.length === 0) return '';
  return html`<h2>Your own fields</h2>
    <div class="card">
      !${facts(entries.map(([key, value]) => [key, html`${typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)}`] as const))}
    </div>`;
};
