import type { LockedId, Queryable, Transaction } from '../../database/db.ts';
import { conflict } from '../../errors.ts';
import type { Line, LinesPatch } from '../../schemas/opportunities.ts';

export const totalOfLines = (sql: Queryable, customerId: string, opportunityId: string) => sql`
  (
    select coalesce(sum(price * quantity), 0)
    from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = ${opportunityId}
  )`;

interface OpportunityRef {
  id: LockedId;
  /** The stage that the opportunity has at the end of the transaction. */
  stage_id: string;
}

/** Appends lines in order. The products are locked, and have no line yet. */
export async function addLines(
  sql: Transaction,
  customerId: string,
  opportunity: OpportunityRef,
  lines: Line[],
): Promise<void> {
  await sql`
    insert into opportunity_lines (customer_id, opportunity_id, product_id, pipeline_id, position, price, quantity)
    select
      s.customer_id,
      ${opportunity.id},
      line.product_id,
      s.pipeline_id,
      last.position + line.ordinality,
      line.price,
      line.quantity
    from stages s
    cross join unnest(
      ${lines.map(({ id }) => id)}::uuid[],
      ${lines.map(({ price }) => price)}::numeric[],
      ${lines.map(({ quantity }) => quantity)}::integer[]
    ) with ordinality as line (product_id, price, quantity, ordinality)
    cross join (
      select coalesce(max(position), 0) as position
      from opportunity_lines
      where customer_id = ${customerId}
        and opportunity_id = ${opportunity.id}
    ) last
    where s.customer_id = ${customerId}
      and s.id = ${opportunity.stage_id}`;
}

/** Changes lines by a patch that fits them: see `findAbsentLines` and `requireNewLines`. */
export async function updateLines(
  sql: Transaction,
  customerId: string,
  opportunity: OpportunityRef,
  { remove = [], update = [], add = [] }: LinesPatch,
): Promise<void> {
  if (remove.length > 0) await removeLines(sql, customerId, opportunity.id, remove);
  if (update.length > 0) await updateExistingLines(sql, customerId, opportunity.id, update);
  if (add.length > 0) await addLines(sql, customerId, opportunity, add);
}

async function removeLines(
  sql: Transaction,
  customerId: string,
  opportunityId: LockedId,
  productIds: string[],
): Promise<void> {
  await sql`
    delete from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = ${opportunityId}
      and product_id = any(${productIds}::uuid[])`;
}

async function updateExistingLines(
  sql: Transaction,
  customerId: string,
  opportunityId: LockedId,
  changes: NonNullable<LinesPatch['update']>,
): Promise<void> {
  await sql`
    update opportunity_lines l
    set price = coalesce(change.price, l.price), quantity = coalesce(change.quantity, l.quantity)
    from unnest(
      ${changes.map(({ id }) => id)}::uuid[],
      ${changes.map(({ price = null }) => price)}::numeric[],
      ${changes.map(({ quantity = null }) => quantity)}::integer[]
    ) as change (product_id, price, quantity)
    where l.customer_id = ${customerId}
      and l.opportunity_id = ${opportunityId}
      and l.product_id = change.product_id`;
}

/** Sets the pipeline of all lines to that of the opportunity's stage. Call it after the stage has changed. */
export async function moveLines(sql: Transaction, customerId: string, { id, stage_id }: OpportunityRef): Promise<void> {
  await sql`
    update opportunity_lines l
    set pipeline_id = s.pipeline_id
    from stages s
    where s.customer_id = ${customerId}
      and s.id = ${stage_id}
      and l.customer_id = ${customerId}
      and l.opportunity_id = ${id}
      and l.pipeline_id <> s.pipeline_id`;
}

export async function findLineProducts(
  sql: Transaction,
  customerId: string,
  opportunityId: string,
): Promise<Set<string>> {
  const lines = await sql<{ product_id: string }[]>`
    select product_id
    from opportunity_lines
    where customer_id = ${customerId}
      and opportunity_id = ${opportunityId}`;
  return new Set(lines.map(({ product_id }) => product_id));
}

/**
 * Returns JSON pointers to products that a patch removes or updates, but that have no line.
 * @param present products in the opportunity's lines
 */
export function findAbsentLines(
  present: Set<string>,
  { remove = [], update = [] }: LinesPatch,
): { noun: string; path: string }[] {
  const named = [
    ...remove.map((id, index) => ({ id, path: `/products/remove/${index}` })),
    ...update.map(({ id }, index) => ({ id, path: `/products/update/${index}/id` })),
  ];
  return named.filter(({ id }) => !present.has(id)).map(({ path }) => ({ noun: 'product in this opportunity', path }));
}

const alreadyThere = 'is already in this opportunity: use products.update to change its line';

/**
 * @param present products in the opportunity's lines
 * @throws DomainError `conflict` with the JSON pointer of every added product that has a line
 */
export function requireNewLines(present: Set<string>, { add = [] }: LinesPatch): void {
  const faults = add.flatMap(({ id }, index) =>
    present.has(id) ? [{ path: `/products/add/${index}/id`, message: alreadyThere }] : [],
  );
  if (faults.length > 0) throw conflict('A product to add is already in this opportunity', faults);
}
