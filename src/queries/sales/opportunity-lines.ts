import type { LockedId, Transaction } from '../../database/db.ts';
import { conflict, validationFailed, type Fault } from '../../errors.ts';
import type { Detail, Line, LinesPatch } from '../../schemas/opportunities.ts';

/** What a body can have as `products`: changes, or all lines. */
export type GivenLines = LinesPatch | Line[] | undefined;

/** Returns the lines that a body adds or gives anew, with their JSON pointers. */
export function newLines(given: GivenLines): { line: Line; path: string }[] {
  const [lines, path] = Array.isArray(given) ? [given, '/products'] : [given?.add ?? [], '/products/add'];
  return lines.map((line, index) => ({ line, path: `${path}/${index}/id` }));
}

/** Returns JSON pointers to products that a patch removes or updates, but that have no line. */
export function findAbsentLines(details: readonly Detail[], given: GivenLines): { noun: string; path: string }[] {
  if (!given || Array.isArray(given)) return [];
  const { remove = [], update = [] } = given;
  const present = new Set(details.map(({ product_id }) => product_id));
  const named = [
    ...remove.map((id, index) => ({ id, path: `/products/remove/${index}` })),
    ...update.map(({ id }, index) => ({ id, path: `/products/update/${index}/id` })),
  ];
  return named.filter(({ id }) => !present.has(id)).map(({ path }) => ({ noun: 'product in this opportunity', path }));
}

const alreadyThere = 'is already in this opportunity: use products.update to change its line';

/**
 * Returns the lines that an opportunity has after a write. New ones have no name yet.
 * @param given changes that `findAbsentLines` finds nothing wrong with, or all lines
 * @throws DomainError `conflict` with the JSON pointer of every added product that has a line; `validation_failed` if a
 *   product is there twice
 */
export function linesAfter(details: readonly Detail[], given: GivenLines): Detail[] {
  if (!given) return [...details];
  const present = new Map(details.map((detail) => [detail.product_id, detail]));
  const { remove = [], update = [] } = Array.isArray(given) ? { remove: [...present.keys()] } : given;
  const changes = new Map(update.map(({ id, ...change }) => [id, change]));
  const removed = new Set(remove);
  const kept = details.filter(({ product_id }) => !removed.has(product_id));
  const added = newLines(given);
  const taken = new Set(kept.map(({ product_id }) => product_id));
  const faultsOf = (message: string, isFault: (id: string) => boolean): Fault[] =>
    added.flatMap(({ line, path }) => (isFault(line.id) ? [{ path, message }] : []));
  const there = faultsOf(alreadyThere, (id) => taken.has(id));
  if (there.length > 0) throw conflict('A product to add is already in this opportunity', there);
  // Ids are compared by the schema, but two external ids can be of one product after a merge of theirs.
  const twice = faultsOf('is named twice', (id) => taken.size === taken.add(id).size);
  if (twice.length > 0) throw validationFailed(twice);
  return [
    ...kept.map((detail) => withTotal({ ...detail, ...changes.get(detail.product_id) })),
    ...added.map(({ line: { id: product_id, price, quantity } }) =>
      withTotal({ product_id, name: present.get(product_id)?.name ?? '', price, quantity }),
    ),
  ];
}

const withTotal = (line: Omit<Detail, 'total'>): Detail => ({ ...line, total: sumOf([line]) });

const maxSum = 10n ** 15n;

/**
 * Returns the sum of price × quantity, exact.
 * @throws DomainError `validation_failed` if it is 10^11 or more
 */
export function sumOf(lines: readonly Pick<Detail, 'price' | 'quantity'>[]): number {
  // In ten-thousandths. A price has at most 4 decimals.
  const sum = lines.reduce((all, { price, quantity }) => all + BigInt(Math.round(price * 1e4)) * BigInt(quantity), 0n);
  if (sum >= maxSum)
    throw validationFailed([{ path: '/products', message: 'must have a total of less than 100000000000' }]);
  return Number(`${sum / 10_000n}.${String(sum % 10_000n).padStart(4, '0')}`);
}

/** Lines and contacts of an opportunity that is locked. */
export interface Parts {
  id: LockedId;
  stage_id: string;
  contacts_ids: readonly string[];
  details: readonly Pick<Detail, 'product_id' | 'price' | 'quantity'>[];
}

/** Replaces the contacts and lines of opportunities. */
export async function setParts(sql: Transaction, customerId: string, all: readonly Parts[]): Promise<void> {
  if (all.length === 0) return;
  await removeParts(
    sql,
    customerId,
    all.map(({ id }) => id),
  );
  const contacts = all.flatMap(({ id, contacts_ids }) => contacts_ids.map((contact, i) => ({ id, contact, i: i + 1 })));
  await sql`
    insert into opportunity_contacts (customer_id, opportunity_id, contact_id, position)
    select ${customerId}, given.opportunity_id, given.contact_id, given.position
    from unnest(
      ${contacts.map(({ id }) => id)}::uuid[],
      ${contacts.map(({ contact }) => contact)}::uuid[],
      ${contacts.map(({ i }) => i)}::integer[]
    ) as given (opportunity_id, contact_id, position)`;
  const lines = all.flatMap(({ id, stage_id, details }) =>
    details.map((line, i) => ({ ...line, id, stage_id, i: i + 1 })),
  );
  await sql`
    insert into opportunity_lines (customer_id, opportunity_id, product_id, pipeline_id, position, price, quantity)
    select s.customer_id, line.opportunity_id, line.product_id, s.pipeline_id, line.position, line.price, line.quantity
    from stages s
    join unnest(
      ${lines.map(({ id }) => id)}::uuid[],
      ${lines.map(({ stage_id }) => stage_id)}::uuid[],
      ${lines.map(({ product_id }) => product_id)}::uuid[],
      ${lines.map(({ i }) => i)}::integer[],
      ${lines.map(({ price }) => price)}::numeric[],
      ${lines.map(({ quantity }) => quantity)}::integer[]
    ) as line (opportunity_id, stage_id, product_id, position, price, quantity)
      on line.stage_id = s.id
    where s.customer_id = ${customerId}
    order by line.product_id`; // in the order in which a deletion locks products
}

export async function removeParts(sql: Transaction, customerId: string, ids: readonly LockedId[]): Promise<void> {
  await sql`
    delete from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = any(${ids as LockedId[]}::uuid[])`;
  await sql`
    delete from opportunity_contacts
    where customer_id = ${customerId}
      and opportunity_id = any(${ids as LockedId[]}::uuid[])`;
}
