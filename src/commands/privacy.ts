import { readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import { InvalidArgumentError, type Command } from 'commander';
import { report, type Report } from '../catalog/privacy-report.ts';
import {
  apply,
  erase,
  list,
  removeSuppression,
  suppress,
  type Noted,
  type SavedList,
  type Effects,
} from '../catalog/privacy.ts';
import type { RightsServices } from '../catalog/postgres.ts';
import { toIdentifier, type Identifier, type IdentifierKind } from '../queries/jobs/catalog-imports.ts';
import { isInstant } from '../schemas/formats.ts';
import type { Prospect } from '../schemas/prospects.ts';
import { commandAction, asText, UsageError, table, verb } from './command.ts';
import { withCatalog } from './database.ts';

export function define(command: Command): void {
  about(command, 'find', 'show what the installation holds about a person').action(commandAction(find, printReport));

  about(command, 'export', 'print what the catalog holds about a person, and who received it, as JSON').action(
    commandAction(exportPerson, (result) => JSON.stringify(result, undefined, 2)),
  );

  about(
    command,
    'erase',
    'suppress all identifiers of a person, and delete the person from the catalog and from job results',
  )
    .requiredOption('--case <ref>', 'reference of the request', asNote)
    .option('--reason <text>', 'why; default: erasure', asNote)
    .option('--yes', 'erase also if several people have the identifier')
    .action(commandAction(eraseGiven, printErased));

  about(command, 'suppress', 'keep a person out of the catalog, without deletion')
    .requiredOption('--reason <text>', 'why', asNote)
    .option('--case <ref>', 'reference of the request', asNote)
    .action(commandAction(onPerson(suppress), ({ held }) => `Took ${held} people out of the catalog`));

  about(command, 'lift', 'lift the suppression of an identifier, or with --case alone all of a case')
    .option('--case <ref>', 'reference of the request', asNote)
    .action(
      commandAction(liftGiven, ({ lifted, shown }) => `Lifted ${lifted} suppressions; ${shown} people are shown again`),
    );

  verb(command, 'list', 'list all suppressions; save it with --json beside the backups').action(
    commandAction(() => run((services, noted) => list(services, noted)), printList),
  );

  verb(
    command,
    'apply [file]',
    'add the suppressions of a list that was saved with --json, and enforce all; after a restore',
  ).action((file: string | undefined, options: object) => commandAction(() => applyFile(file), printErased)(options));
}

const about = (command: Command, name: string, description: string): Command =>
  command
    .command(name)
    .description(description)
    .option('--email <address>', 'an e-mail address of the person', as('email', 'an e-mail address'))
    .option(
      '--profile <url>',
      'URL of the profile in the professional network',
      as('profnet_url', 'the URL of a profile, such as https://www.linkedin.com/in/somebody'),
    )
    .option('--id <id>', 'id of the person in the catalog', as('id', 'a UUID'));

const as = (kind: IdentifierKind, expected: string) => (text: string) => {
  const identifier = toIdentifier(kind, text);
  if (!identifier) throw new InvalidArgumentError(`It must be ${expected}.`);
  return identifier;
};

const asNote = asText(255);

interface Options {
  email?: Identifier;
  profile?: Identifier;
  id?: Identifier;
  case?: string;
  reason?: string;
  yes?: boolean;
}

function requireIdentifier({ email, profile, id }: Options): Identifier {
  const [identifier, ...others] = [email, profile, id].filter((one) => one !== undefined);
  if (!identifier || others.length > 0) throw new UsageError('name the person by one of --email, --profile, --id');
  return identifier;
}

const run = <T>(work: (services: RightsServices, noted: Noted) => Promise<T>, options: Options = {}): Promise<T> =>
  withCatalog(({ db, catalog }) => {
    const notify = (text: string) => process.stderr.write(`${text}\n`);
    const noted = { operator: userInfo().username, case_ref: options.case, reason: options.reason };
    return work({ db, catalog, notify }, noted);
  });

type Shown = Omit<Report, 'people'> & {
  people: (Pick<Prospect, '_id' | 'source' | 'collected_at'> & { place: string })[];
};

const onPerson =
  <T>(work: (services: RightsServices, person: Identifier, noted: Noted, options: Options) => Promise<T>) =>
  (options: Options): Promise<T> => {
    const identifier = requireIdentifier(options);
    return run((services, noted) => work(services, identifier, noted, options), options);
  };

const find = onPerson(async (services, identifier, noted): Promise<Shown> => {
  const { people, ...rest } = await report(services, identifier, noted, 'find');
  const shown = people.map(({ place, person: { _id, source, collected_at } }) => ({
    _id,
    place,
    ...(source === undefined ? {} : { source }),
    ...(collected_at === undefined ? {} : { collected_at }),
  }));
  return { people: shown, ...rest };
});

/** Returns the data that a person may receive. It has nothing about other people, and no ids of customers. */
const exportPerson = onPerson(async (services, identifier, noted) => {
  const { people, unlocks, suppressions } = await report(services, identifier, noted, 'export');
  return {
    people: people.map(({ place, person }) => ({ place, ...person })),
    recipients: unlocks.map(({ customer, unlocked_at }) => ({ name: customer, received_at: unlocked_at })),
    suppressions,
  };
});

const eraseGiven = onPerson((services, identifier, noted, { yes }) =>
  erase(services, identifier, noted, { isConfirmed: yes === true }),
);

const liftGiven = (options: Options) => {
  const isOfCase = options.case !== undefined && !options.email && !options.profile && !options.id;
  const identifier = isOfCase ? undefined : requireIdentifier(options);
  return run((services, noted) => removeSuppression(services, identifier, noted), options);
};

async function applyFile(file: string | undefined) {
  const saved = file === undefined ? undefined : parseList(await readFile(file, 'utf8'));
  return run((services, noted) => apply(services, saved, noted));
}

function parseList(text: string): SavedList {
  const isRow = (row: Partial<SavedList['suppressions'][number]>): boolean =>
    ['email', 'profnet_url', 'id'].includes(row.kind ?? '') &&
    /^[0-9a-f]{64}$/.test(row.digest ?? '') &&
    typeof row.is_erasure === 'boolean' &&
    typeof row.reason === 'string' &&
    (row.case_ref === null || typeof row.case_ref === 'string') &&
    isInstant(row.received_at ?? '');
  try {
    const saved = JSON.parse(text) as SavedList;
    if (typeof saved.secret_check === 'string' && saved.suppressions.every(isRow)) return saved;
  } catch {
    // Not JSON, or without a list: as below.
  }
  throw new UsageError('the file is not a list that `privacy list --json` has printed');
}

const printErased = ({ deleted, held, told, contacts, results, suppressed }: Effects & { suppressed: number }) =>
  [
    `suppressed   ${suppressed} identifiers`,
    `deleted      ${deleted} people`,
    `kept out     ${held} people who share an identifier`,
    `told         ${told} customers`,
    `marked       ${contacts} contacts of customers`,
    `cleared      ${results} job results`,
  ].join('\n');

const printList = ({ suppressions }: SavedList): string =>
  table(suppressions, {
    RECEIVED: 'received_at',
    KIND: 'kind',
    ERASED: 'is_erasure',
    REASON: 'reason',
    CASE: 'case_ref',
    DIGEST: ({ digest }) => digest.slice(0, 16),
  });

function printReport({ people, unlocks, contacts, mentions, suppressions, actions }: Shown): string {
  const parts = {
    'Copies of the person': table(people, { PLACE: 'place', ID: '_id', SOURCE: 'source', COLLECTED: 'collected_at' }),
    'Unlocked by': table(unlocks, { CUSTOMER: 'customer', ID: 'customer_id', AT: 'unlocked_at' }),
    'Contacts, which are the customers’ own': table(contacts, {
      CUSTOMER: 'customer',
      'CUSTOMER ID': 'customer_id',
      CONTACT: 'id',
      'REMOVAL REQUESTED': 'removal_requested_at',
    }),
    'Other records of customers': table(mentions, { CUSTOMER: 'customer', WHERE: 'where', COUNT: 'count' }),
    Suppressed: table(suppressions, { RECEIVED: 'received_at', KIND: 'kind', REASON: 'reason', CASE: 'case_ref' }),
    'What was done before': table(actions, { AT: 'created_at', ACTION: 'action', BY: 'operator', CASE: 'case_ref' }),
  };
  return Object.entries(parts)
    .map((part) => part.join('\n'))
    .join('\n\n');
}
