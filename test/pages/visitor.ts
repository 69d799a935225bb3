import type { FastifyInstance, LightMyRequestResponse } from 'fastify';
import { beforeEach, expect } from 'vitest';
import type { Role } from '../../src/schemas/accounts.ts';
import { customerOfEachTest, type TestApp } from '../setup/app.ts';
import type { TestCustomer } from '../setup/factories.ts';
import { makeLogin, password } from '../setup/sessions.ts';

type Fields = Record<string, string | string[]>;

/** The answer to a visitor: a page or a redirect. */
export interface PageAnswer {
  status: number;
  headers: LightMyRequestResponse['headers'];
  body: string;
  location: string | undefined;
}

/** A person with a browser: keeps cookies, and sends the forms of pages. */
export class Visitor {
  readonly cookies = new Map<string, string>();
  readonly #app: FastifyInstance;

  constructor(app: FastifyInstance) {
    this.#app = app;
  }

  get = (url: string, headers: Record<string, string> = {}): Promise<PageAnswer> => this.send('GET', url, { headers });

  /** Sends a form with these fields, and nothing else. */
  post(url: string, fields: Fields, headers: Record<string, string> = {}): Promise<PageAnswer> {
    const pairs = Object.entries(fields).flatMap(([name, value]) =>
      [value].flat().map((one): [string, string] => [name, one]),
    );
    const payload = new URLSearchParams(pairs).toString();
    return this.send('POST', url, {
      payload,
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    });
  }

  /** Opens a page, and sends its form to `action` with these fields. Other fields keep their values. */
  async submit(page: string, fields: Fields = {}, action = page.split('?')[0]!): Promise<PageAnswer> {
    return this.post(action, { ...(await this.fieldsOf(page, action)), ...fields });
  }

  /** Returns the fields of the form for `action` on a page that have a value already. */
  async fieldsOf(page: string, action = page.split('?')[0]!): Promise<Record<string, string>> {
    return filledFields((await this.get(page)).body, action);
  }

  async send(
    method: string,
    url: string,
    { headers = {}, payload }: { headers?: Record<string, string>; payload?: string | Buffer } = {},
  ): Promise<PageAnswer> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await this.#app.inject({
      method: method as 'GET',
      url,
      headers: { accept: 'text/html', ...(cookie ? { cookie } : {}), ...headers },
      ...(payload === undefined ? {} : { payload }),
    });
    for (const { name, value, maxAge } of answer.cookies)
      if (maxAge === 0) this.cookies.delete(name);
      else this.cookies.set(name, value);
    return {
      status: answer.statusCode,
      headers: answer.headers,
      body: answer.body,
      location: answer.headers.location,
    };
  }

  logIn = (email: string, secret: string = password): Promise<PageAnswer> =>
    this.submit('/app/login', { email, password: secret });
}

/** Returns the hidden fields, the texts and the choices of the form for `action` in the HTML of a page. */
export function filledFields(html: string, action: string): Record<string, string> {
  const form = [...html.matchAll(/<form\b[^>]*action="([^"]*)"[^>]*>([\s\S]*?)<\/form>/g)].find(
    ([, found]) => found!.replaceAll('&#61;', '=') === action,
  );
  if (!form) throw new Error(`no form for ${action} in: ${html}`);
  const inputs = [...form[2]!.matchAll(/<input\s[^>]*type="(?:hidden|text|date)"[^>]*>/g)].map(([input]) => input);
  const selects = [...form[2]!.matchAll(/(<select\s[^>]*>)([\s\S]*?)<\/select>/g)];
  return Object.fromEntries([
    ...inputs.map((input) => [attribute(input, 'name'), attribute(input, 'value')]),
    ...selects.map(([, tag, options]) => [attribute(tag!, 'name'), chosenOf(options!)]),
  ]);
}

/** Returns the value of the option that is selected, or else of the first one. */
function chosenOf(options: string): string {
  const tags = [...options.matchAll(/<option\s[^>]*>/g)].map(([tag]) => tag);
  return attribute(tags.find((tag) => /\sselected/.test(tag)) ?? tags[0] ?? '', 'value');
}

const attribute = (tag: string, name: string): string =>
  withoutEntities(new RegExp(`\\b${name}="([^"]*)"`).exec(tag)?.[1] ?? '');

const withoutEntities = (text: string): string =>
  text.replaceAll(/&#(\d+);/g, (_entity, code) => String.fromCodePoint(Number(code)));

/** Returns the URLs of the static files that a page loads. */
export const filesOf = ({ body }: { body: string }): string[] =>
  (body.match(/\/app\/files\/[^"]+/g) ?? []).map(withoutEntities);

/** Returns the text of a page without tags, with single spaces. */
export const textOf = ({ body }: { body: string }): string =>
  body
    .replaceAll(/<(script|style)[\s\S]*?<\/\1>|<[^>]*>/g, ' ')
    .replaceAll(/&#(\d+);/g, (_entity, code) => String.fromCodePoint(Number(code)))
    .replaceAll(/\s+/g, ' ')
    .trim();

/** Expects that the answer is a page with this status, and that its text says this. */
export function expectPage(answer: PageAnswer, status: number, says: string | RegExp): void {
  const text: unknown = typeof says === 'string' ? expect.stringContaining(says) : expect.stringMatching(says);
  expect([answer.status, textOf(answer)]).toEqual([status, text]);
}

/** Creates a user of a customer who is logged in to the pages. */
export const visitorOf = (app: FastifyInstance, customerId: string, role: Role = 'admin'): Promise<LoggedIn> =>
  logInNewUser(new Visitor(app), app, customerId, role);

/** Returns a customer, and an admin of it who is logged in to the pages: new ones in each test. */
export function adminOfEachTest(app: TestApp): { customer: TestCustomer; admin: LoggedIn } {
  const customer = customerOfEachTest(app);
  const admin = new Visitor(app.fastify) as LoggedIn;
  beforeEach(async () => {
    admin.cookies.clear();
    await logInNewUser(admin, app.fastify, customer.id, 'admin');
  });
  return { customer, admin };
}

type LoggedIn = Visitor & { user: Awaited<ReturnType<typeof makeLogin>> };

async function logInNewUser(visitor: Visitor, app: FastifyInstance, customerId: string, role: Role): Promise<LoggedIn> {
  const user = await makeLogin(app, customerId, role);
  const { status } = await visitor.logIn(user.email);
  if (status !== 303) throw new Error(`the login was answered with ${status}`);
  return Object.assign(visitor, { user });
}
