import { continueFill } from '../queries/list-fills.ts';
import { startFill } from './start.ts';
import type { Handler } from './handler.ts';

/**
 * Writes down who is in a list whose rules have changed, batch by batch. How far it is stands with the list, so that a job
 * that died is gone on with; one whose rules have changed again, or whose list is gone, has nothing to do.
 */
export const fillList: Handler<'fill-list'> = async ({ db, stopping }, fill) => {
  while (await db.transaction((sql) => continueFill(sql, fill))) {
    if (stopping.aborted) return db.transaction((sql) => startFill(sql, fill));
  }
};
