import type { FastifyInstance } from 'fastify';
import { findCredits, listDailyCharges, listEntries, type DailyCharge } from '../../queries/jobs/credits.ts';
import { pools, type Credits, type EntryKind, type LedgerEntry, type Pool } from '../../schemas/credits.ts';
import { forMembers, sendPage } from '../base/layout.ts';
import { queryOf, text } from '../base/forms.ts';
import { badge, count, cursorPager, empty, html, moment, table, type Html, type Tone } from '../base/html.ts';
import { poolWords } from '../base/words.ts';

const section = '/app/credits';
const shownDays = 30;

export async function credits(app: FastifyInstance): Promise<void> {
  app.get('/credits', forMembers, async (request, reply) => {
    const { db, caller } = request;
    const cursor = text(queryOf(request), 'cursor');
    const ledger = await listEntries(db, caller.customerId, cursor === '' ? {} : { cursor });
    const [balances, charges] = await Promise.all([
      db.lookup((sql) => findCredits(sql, caller.customerId)),
      db.search((sql) => listDailyCharges(sql, caller.customerId, shownDays)),
    ]);
    const body = html`!${
        cursor === ''
          ? html`<div class="balances">!${pools.map((pool) => poolCard(pool, balances, charges))}</div>`
          : html`<p><a href="${section}">Back to the newest entries</a></p>`
      }
      <h2>Ledger</h2>
      !${table(
        'Ledger',
        [
          ['When', (one) => moment(one.created_at)],
          ['Credits', (one) => poolWords[one.pool].word],
          ['What', ({ kind }) => badge(kinds[kind].name, kinds[kind].tone)],
          ['Amount', (one) => count(one.amount), 'number'],
          ['Available after', (one) => count(one.balance_after), 'number'],
          ['Reserved after', (one) => count(one.reserved_after), 'number'],
          ['About', aboutOf],
        ],
        ledger.rows,
        empty(
          'Nothing yet',
          'Each change of your credits is listed here: grants, and what jobs reserve and spend.',
          '',
          'coins',
        ),
      )}
      !${cursorPager(section, cursor, ledger.nextCursor)}`;
    return sendPage(request, reply, { title: 'Credits', body });
  });
}

const kinds: Record<EntryKind, { name: string; tone: Tone }> = {
  grant: { name: 'granted', tone: 'good' },
  reserve: { name: 'reserved', tone: 'busy' },
  charge: { name: 'spent', tone: 'plain' },
  release: { name: 'released', tone: 'plain' },
  adjust: { name: 'corrected', tone: 'warning' },
};

const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });

function poolCard(pool: Pool, balances: Credits, charges: readonly DailyCharge[]): Html {
  const { word: title, purpose } = poolWords[pool];
  const { balance, reserved } = balances[pool];
  const bars = charges
    .filter((charge) => charge.pool === pool)
    .map(({ day, amount }) => ({ name: days.format(new Date(day)), value: amount }));
  const spent = bars.reduce((sum, { value }) => sum + value, 0);
  return html`<section class="card">
    <h2>${title}</h2>
    <p class="figure">${count(balance)}</p>
    <p class="quiet">available ${purpose}${reserved > 0 ? `; ${count(reserved)} more are reserved for jobs` : ''}</p>
    !${spent > 0 ? barChart(`${title}: ${count(spent)} credits spent in the last ${shownDays} days`, bars) : ''}
    <p class="quiet">${count(spent)} spent in the last ${shownDays} days</p>
    !${spent > 0 ? daily(bars) : ''}
  </section>`;
}

const daily = (bars: readonly { name: string; value: number }[]): Html =>
  html`<details>
    <summary>The numbers</summary>
    <ul>
      !${bars.filter(({ value }) => value > 0).map(({ name, value }) => html`<li>${name}: ${count(value)}</li>`)}
    </ul>
  </details>`;

const aboutOf = ({ job_id, note }: LedgerEntry): Html =>
  job_id === null ? html`${note ?? ''}` : html`<a href="/app/jobs/${job_id}">Job</a>`;

export interface Bar {
  name: string;
  value: number;
}

const width = 420;
const height = 140;
const left = 44;
const top = 10;
const ground = height - 20;

/**
 * Returns an SVG element: bars, a scale at the left, and the names of the first and the last bar below.
 * @param label describes the chart to screen readers
 */
export function barChart(label: string, bars: readonly Bar[]): Html {
  const most = topOf(Math.max(...bars.map(({ value }) => value)));
  const step = (width - left) / bars.length;
  const y = (value: number): number => round(ground - (value / most) * (ground - top));
  const barOf = ({ name, value }: Bar, i: number): Html => {
    const size = value === 0 ? 1 : Math.max(3, ground - y(value));
    return html`<rect
      x="${round(left + i * step + step * 0.15)}"
      y="${round(ground - size)}"
      width="${round(step * 0.7)}"
      height="${round(size)}"
      rx="2"
      !${value === 0 ? 'class="none"' : ''}
    >
      <title>${name}: ${count(value)}</title>
    </rect>`;
  };
  const markOf = (value: number): Html =>
    html`<line x1="${left}" y1="${y(value)}" x2="${width}" y2="${y(value)}" />
      <text x="${left - 6}" y="${y(value) + 4}" text-anchor="end">${scale.format(value)}</text>`;
  return html`<svg class="chart" viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">
    !${(most === 1 ? [0, 1] : [0, most / 2, most]).map(markOf)} !${bars.map(barOf)}
    <text x="${left}" y="${height - 4}">${bars[0]!.name}</text>
    <text x="${width}" y="${height - 4}" text-anchor="end">${bars.at(-1)!.name}</text>
  </svg>`;
}

const scale = new Intl.NumberFormat('en-GB', { notation: 'compact' });

/** Returns the top of a scale: the next number of the form 1, 2, 4 or 10, 20, 40 …, whose half can be read too. */
function topOf(highest: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, highest)));
  return [1, 2, 4, 10].map((factor) => factor * power).find((one) => one >= highest)!;
}

const round = (value: number): number => Math.round(value * 10) / 10;
