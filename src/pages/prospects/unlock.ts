import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { spenderOf } from '../../credentials/caller.ts';
import {
  estimateSelectedUnlock,
  estimateUnlock,
  findChosen,
  findChosenIfUp,
  searchOf,
  startSelectedUnlock,
  startUnlock,
} from '../../jobs/unlocks/start-unlock.ts';
import { UnlockContacts, UnlockSelectedContacts } from '../../schemas/jobs.ts';
import { canonicalId } from '../../text/ids.ts';
import { compile } from '../../validation/validator.ts';
import { forAdmins } from '../base/access.ts';
import {
  fieldsOf,
  hidden,
  integer,
  notSent,
  once,
  payerOf,
  queryOf,
  refusalOf,
  text,
  tick,
  values,
  type Fields,
  type Refused,
} from '../base/forms.ts';
import { chosenList, listControls, namesList } from '../records/chosen-acts.ts';
import { counted, html, linkButton } from '../base/html.ts';
import { goTo, sendForm } from '../base/layout.ts';
import { priceOf } from '../base/values.ts';
import { prospectAddress, prospectFiltersOf, prospectViewOf, section } from './prospect-address.ts';

const path = `${section}/unlock`;

const maxChosen = UnlockSelectedContacts.properties.ids.maxItems as number;

/** The question what unlocking costs, and the start of the job. Calls the functions of the API's routes. */
export async function unlocking(app: FastifyInstance): Promise<void> {
  const checkFirst = compile(UnlockContacts);
  const checkChosen = compile(UnlockSelectedContacts);

  app.get('/prospects/unlock', forAdmins, async (request, reply) => ask(request, reply, queryOf(request)));

  app.post('/prospects/unlock', forAdmins, async (request, reply) => {
    const { caller, catalog } = request;
    const fields = fieldsOf(request);
    const { first, chosen } = await bodiesOf(fields);
    if (faultOf({ first, chosen })) return ask(request, reply, fields);
    const matches = first ? await catalog.count(searchOf(caller.customerId, first)) : 0;
    const known = chosen ? await findChosenIfUp(catalog, chosen.ids) : [];
    const payer = payerOf(request);
    try {
      const job = await once(request, async (sql) => {
        const list = namesList(fields) ? await chosenList(request, sql, 'PROSPECT') : undefined;
        const lists = list === undefined ? {} : { list_ids: [list] };
        const { id } = first
          ? await startUnlock(sql, payer, app.config, { ...first, ...lists }, matches)
          : await startSelectedUnlock(sql, payer, app.config, { ...chosen!, ...lists }, known);
        return `${id}${list === undefined ? '' : `?list=${list}`}`;
      });
      return await goTo(reply, job ? `/app/jobs/${job}` : '/app/jobs?done=sent');
    } catch (error) {
      return ask(request, reply, fields, refusalOf(error));
    }
  });

  /** Returns undefined if a form says what to unlock. */
  function faultOf({ first, chosen }: Bodies): Refused | undefined {
    if (first ? checkFirst.isValid(first) : checkChosen.isValid(chosen)) return undefined;
    const isNumber =
      Number.isInteger(first?.total_records) && first!.total_records >= 1 && first!.total_records <= 10_000;
    const text = isNumber ? 'Search for less: a filter has too many values.' : 'Give a number from 1 to 10,000.';
    return { faults: { '': first ? text : 'Choose some prospects first.' }, status: 400 };
  }

  async function ask(
    request: FastifyRequest,
    reply: FastifyReply,
    fields: Fields,
    refused = notSent,
  ): Promise<FastifyReply> {
    const view = prospectViewOf(fields);
    const { first, chosen } = await bodiesOf(fields);
    const fault = faultOf({ first, chosen });
    const price = fault ? undefined : await estimate(request, { first, chosen });
    const makesContacts = request.method !== 'POST' || (first ?? chosen)!.sync_crm === true;
    const number = first ? Math.min(first.total_records, price?.matches ?? 0) : (price?.matches ?? 0);
    return sendForm(request, reply, {
      title: 'Unlock prospects',
      section,
      action: path,
      body: html`!${hidden({ ...view, do: text(fields, 'do'), number: text(fields, 'number'), id: chosen?.ids ?? [] })}
        !${
          price
            ? html`<p>Unlocks ${counted(number, 'prospect')}. Those that were unlocked before cost nothing.</p>
                !${priceOf(price)} !${tick('checkbox', ['sync_crm', '1'], 'Make contacts of them', makesContacts)}
                !${await listControls(request, refused.faults, 'no list')}`
            : ''
        }
        <div class="buttons">
          !${price && number > 0 && price.cost <= price.available ? html`<button>Unlock now</button>` : ''}
          !${linkButton('Back', prospectAddress(section, view), 'secondary outline')}
        </div>`,
      attributes: 'data-once',
      fields: ['list_id', 'name'],
      refused: fault ?? refused,
      isNarrow: true,
    });
  }

  async function estimate({ db, caller, catalog }: FastifyRequest, { first, chosen }: Bodies) {
    const matches = first ? await catalog.count(searchOf(caller.customerId, first)) : 0;
    const known = chosen ? await findChosen(catalog, chosen.ids) : [];
    return db.transaction((sql) =>
      first
        ? estimateUnlock(sql, spenderOf(caller), app.config, first, matches)
        : estimateSelectedUnlock(sql, spenderOf(caller), app.config, chosen!, known),
    );
  }
}

interface Bodies {
  first?: UnlockContacts | undefined;
  chosen?: UnlockSelectedContacts | undefined;
}

/** Returns the body of the API's call that a form stands for, not validated yet. */
async function bodiesOf(fields: Fields): Promise<Bodies> {
  const sync_crm = text(fields, 'sync_crm') === '1';
  if (text(fields, 'do') === 'first')
    return {
      first: {
        filters: await prospectFiltersOf(prospectViewOf(fields)),
        total_records: integer(fields, 'number'),
        sync_crm,
      },
    };
  const ids = values(fields, 'id', maxChosen).flatMap((id) => canonicalId(id) ?? []);
  return { chosen: { ids, sync_crm } };
}
