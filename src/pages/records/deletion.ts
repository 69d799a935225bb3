import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Transaction } from '../../database/db.ts';
import { DomainError } from '../../errors.ts';
import { forMembers } from '../base/access.ts';
import { fieldsOf, idOf, text } from '../base/forms.ts';
import type { Html } from '../base/html.ts';
import { goTo, sendConfirmation } from '../base/layout.ts';

/** How records of one kind are deleted. */
interface Deletion<Row> {
  path: string;
  noun: string;
  /** Returns the record of the request's path. */
  require: (request: FastifyRequest) => Promise<Row>;
  tagOf: (row: Row) => string;
  /** Says what is deleted, and what stays. */
  question: (request: FastifyRequest, row: Row) => Html | Promise<Html>;
  remove: (sql: Transaction, customerId: string, id: string, ifMatch: string) => Promise<void>;
  /** Path of the page that follows. */
  done: string;
}

/** Adds the question whether a record is to be deleted, and the deletion. If the record has changed since the question, it is asked again. */
export function deletion<Row extends { id: string }>(app: FastifyInstance, kind: Deletion<Row>): void {
  const { path, noun } = kind;
  const route = `${path.replace('/app', '')}/:id/delete`;

  app.get(route, forMembers, async (request, reply) => ask(request, reply));

  app.post(route, forMembers, async (request, reply) => {
    const [id, etag] = [idOf(request, noun), text(fieldsOf(request), 'etag')];
    try {
      await request.db.transaction((sql) => kind.remove(sql, request.caller.customerId, id, etag));
    } catch (error) {
      if (!(error instanceof DomainError) || error.code !== 'precondition_failed') throw error;
      return ask(request, reply, `Somebody changed this ${noun} meanwhile, and it is not deleted yet.`);
    }
    return goTo(reply, kind.done);
  });

  async function ask(request: FastifyRequest, reply: FastifyReply, warning?: string): Promise<FastifyReply> {
    const found = await kind.require(request);
    return sendConfirmation(request, reply, {
      title: `Delete the ${noun}`,
      section: path,
      text: await kind.question(request, found),
      action: `${path}/${found.id}/delete`,
      back: `${path}/${found.id}`,
      refusal: 'Keep it',
      etag: kind.tagOf(found),
      ...(warning === undefined ? {} : { warning }),
    });
  }
}
