import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { spenderOf } from '../../credentials/caller.ts';
import {
  countExisting,
  estimateSelectedUnlock,
  estimateUnlock,
  searchOf,
  startSelectedUnlock,
  startUnlock,
} from '../../jobs/unlocks/start-unlock.ts';
import { markSent } from '../../queries/records/sent-forms.ts';
import { UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { canonicalId } from '../../text/ids.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins } from '../base/access.ts';
import {
  faultsOf,
  fieldsOf,
  formFaults,
  integer,
  queryOf,
  refusalOf,
  text,
  tokenOf,
  values,
  type Faults,
  type Fields,
} from '../base/forms.ts';
import { chosenList, listControls, namesList } from '../records/chosen-acts.ts';
import { counted, html } from '../base/html.ts';
import { form, goTo, sendPage } from '../base/layout.ts';
import { priceOf } from '../base/values.ts';
import { prospectAddress, prospectFiltersOf, prospectViewOf, section } from './prospect-address.ts';

const path = `${section}/unlock`;

/** The question what unlocking costs, and the start of the job. Calls the functions of the API's routes. */
export async function unlocking(app: FastifyInstance): Promise<void> {
  const checkFirst = compile(UnlockContacts);
  const checkChosen = compile(UnlockSelectedContacts);

  app.get('/prospects/unlock', forAdmins, async (request, reply) => ask(request, reply, queryOf(request)));

  app.post('/prospects/unlock', forAdmins, async (request, reply) => {
    const { db, caller, catalog } = request;
    const fields = fieldsOf(request);
    const { first, chosen } = bodiesOf(fields);
    const faults = first ? faultsOf(checkFirst, first) : faultsOf(checkChosen, chosen);
    if (Object.keys(faults).length > 0) return ask(request, reply, fields);
    const matches = first ? await catalog.count(searchOf(caller.customerId, first)) : 0;
    const spender = spenderOf(caller);
    try {
      const job = await db.transaction(async (sql) => {
        if (!(await markSent(sql, caller.customerId, tokenOf(request.body)))) return undefined;
        const list = namesList(fields) ? await chosenList(request, sql, 'PROSPECT') : undefined;
        const lists = list === undefined ? {} : { list_ids: [list] };
        const { id } = first
          ? await startUnlock(sql, spender, app.config, { ...first, ...lists }, matches)
          : await startSelectedUnlock(sql, spender, app.config, { ...chosen!, ...lists });
        return `${id}${list === undefined ? '' : `?list=${list}`}`;
      });
      return await goTo(reply, job ? `/app/jobs/${job}` : '/app/jobs?done=sent');
    } catch (error) {
      const refusal = refusalOf(error);
      return ask(request, reply, fields, refusal.faults, refusal.status);
    }
  });

  async function ask(
    request: FastifyRequest,
    reply: FastifyReply,
    fields: Fields,
    refused: Faults = {},
    status = 400,
  ): Promise<FastifyReply> {
    const view = prospectViewOf(fields);
    const back = prospectAddress(section, view);
    const { first, chosen } = bodiesOf(fields);
    const faults = first ? faultsOf(checkFirst, first) : faultsOf(checkChosen, chosen);
    const hasFaults = Object.keys(faults).length > 0;
    const price = hasFaults ? undefined : await estimate(request, fields);
    const kept = { ...view, do: text(fields, 'do'), number: text(fields, 'number') };
    const number = first ? Math.min(first.total_records, price?.matches ?? 0) : (price?.matches ?? 0);
    const body = html`!${Object.entries(kept).map(
        ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
      )}
      !${(chosen?.ids ?? []).map((id) => html`<input type="hidden" name="id" value="${id}" />`)}
      !${formFaults(refused, ['list_id', 'name'])}
      !${hasFaults ? formFaults({ '': chosen ? 'Choose some prospects first.' : 'Give a number from 1 to 10,000.' }, []) : ''}
      !${
        price
          ? html`<p>Unlocks ${counted(number, 'prospect')}. Those that were unlocked before cost nothing.</p>
              !${priceOf(price)}
              <label> <input type="checkbox" name="sync_crm" value="1" checked /> Make contacts of them </label>
              !${await listControls(request, refused, 'no list')}`
          : ''
      }
      <div class="buttons">
        !${price && number > 0 && price.cost <= price.available ? html`<button>Unlock now</button>` : ''}
        <a role="button" class="secondary outline" href="${back}">Back</a>
      </div>`;
    return sendPage(request, reply, {
      title: 'Unlock prospects',
      section,
      status: hasFaults || Object.keys(refused).length > 0 ? status : 200,
      body: html`<div class="card narrow">
        !${form(request, reply, { action: path, body, attributes: 'data-once' })}
      </div>`,
    });
  }

  async function estimate({ db, caller, catalog }: FastifyRequest, fields: Fields) {
    const { first, chosen } = bodiesOf(fields);
    const matches = first
      ? await catalog.count(searchOf(caller.customerId, first))
      : await countExisting(catalog, chosen!.ids);
    return db.transaction((sql) =>
      first
        ? estimateUnlock(sql, spenderOf(caller), app.config, first, matches)
        : estimateSelectedUnlock(sql, spenderOf(caller), app.config, chosen!, matches),
    );
  }
}

/** Returns the body of the API's call that a form stands for, not validated yet. */
function bodiesOf(fields: Fields): { first?: UnlockContacts; chosen?: UnlockSelectedContacts } {
  const sync_crm = text(fields, 'sync_crm') === '1';
  if (text(fields, 'do') === 'first')
    return {
      first: { filters: prospectFiltersOf(prospectViewOf(fields)), total_records: integer(fields, 'number'), sync_crm },
    };
  const ids = values(fields, 'id').flatMap((id) => canonicalId(id) ?? []);
  return { chosen: { ids, sync_crm } };
}
