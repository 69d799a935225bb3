import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { PageAccess } from './access.ts';
import { notSent, refusalOf, type Refused } from './forms.ts';
import { goTo, sendConfirmation, type Confirmation } from './layout.ts';

/** The path of the next page, a page that is sent already, or why nothing was done. */
type Outcome = string | FastifyReply | Refused;

interface FormRoutes {
  access: PageAccess;
  /** Sends the page with the form: as it is at first, or as it was sent. */
  show: (request: FastifyRequest, reply: FastifyReply, refused: Refused) => FastifyReply | Promise<FastifyReply>;
  /** Does what the form is for. What it throws about the form's values is shown with the form. */
  act: (request: FastifyRequest, reply: FastifyReply) => Promise<Outcome>;
}

/** Adds the page with a form, and what is done when the form is sent. */
export function formRoutes(app: FastifyInstance, path: string, { access, show, act }: FormRoutes): void {
  app.get(path, access, async (request, reply) => show(request, reply, notSent));

  app.post(path, access, async (request, reply) => {
    let outcome: Outcome;
    try {
      outcome = await act(request, reply);
    } catch (error) {
      outcome = refusalOf(error);
    }
    if (typeof outcome === 'string') return goTo(reply, outcome);
    return 'faults' in outcome ? show(request, reply, outcome) : outcome;
  });
}

interface QuestionRoutes extends Pick<FormRoutes, 'access'> {
  /** Returns the question, or the path of another page if there is nothing to ask. */
  ask: (request: FastifyRequest) => Promise<Omit<Confirmation, 'warning'> | string>;
  act: (request: FastifyRequest, reply: FastifyReply) => Promise<string | FastifyReply>;
  /** Returns why the question is asked again after an error; undefined if the error says nothing of it. */
  warn?: (error: unknown) => string | undefined;
}

/** Adds a question before an act, and the act itself. */
export function questionRoutes(app: FastifyInstance, path: string, routes: QuestionRoutes): void {
  const { access, act, warn } = routes;
  const ask = async (request: FastifyRequest, reply: FastifyReply, warning?: string) => {
    const question = await routes.ask(request);
    return typeof question === 'string'
      ? goTo(reply, question)
      : sendConfirmation(request, reply, { ...question, warning });
  };

  app.get(path, access, async (request, reply) => ask(request, reply));

  app.post(path, access, async (request, reply) => {
    try {
      const next = await act(request, reply);
      return typeof next === 'string' ? await goTo(reply, next) : next;
    } catch (error) {
      const warning = warn?.(error);
      if (warning === undefined) throw error;
      return ask(request, reply, warning);
    }
  });
}
