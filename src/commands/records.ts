import { InvalidArgumentError, Option, type Command } from 'commander';
import { toEnrichEstimate } from '../jobs/enrichment.ts';
import { estimateJob, prepareJob } from '../jobs/job-types.ts';
import { startJob } from '../jobs/start-job.ts';
import { exportCompanies } from '../queries/crm/companies.ts';
import { exportContacts } from '../queries/crm/contacts.ts';
import { findDuplicates } from '../queries/crm/duplicates.ts';
import { exportOpportunities } from '../queries/crm/opportunities.ts';
import { exportProducts } from '../queries/crm/products.ts';
import { mergeCompanies, mergeContacts } from '../queries/crm/record-merges.ts';
import {
  enrichedFields,
  companyDuplicateKeys,
  contactDuplicateKeys,
  CompanyMerge,
  ContactMerge,
  mergedCompanyFields,
  mergedContactFields,
} from '../schemas/clean-data.ts';
import type { EnrichedField, EnrichEstimate, DuplicateGroup, DuplicateKey, Merge } from '../schemas/clean-data.ts';
import { companyFileFields, contactFileFields, opportunityFileFields, productFileFields } from '../schemas/files.ts';
import type { JobStarted } from '../schemas/jobs.ts';
import { compile } from '../validation/validator.ts';
import {
  asInteger,
  asSome,
  asUuid,
  asUuids,
  commandAction,
  table,
  UsageError,
  verb,
  type CommandModule,
} from './command.ts';
import { withCustomer } from './database.ts';
import { defineExport } from './export.ts';
import { defineImport } from './import.ts';

const exported = {
  contacts: { fields: contactFileFields, read: exportContacts },
  companies: { fields: companyFileFields, read: exportCompanies },
  products: { fields: productFileFields, read: exportProducts },
  opportunities: { fields: opportunityFileFields, read: exportOpportunities },
};

export const recordCommand = (noun: keyof typeof exported): CommandModule => ({
  define: (command) => {
    const { fields, read } = exported[noun];
    defineImport(command, noun);
    defineExport(command, { noun, fields, open: (db, customerId) => read(db, customerId, {}) });
    if (noun === 'contacts' || noun === 'companies') defineCleaning(command, noun);
    if (noun === 'contacts') defineEnrichment(command);
  },
});

const cleaned = {
  contacts: { keys: contactDuplicateKeys, fields: mergedContactFields, body: ContactMerge, merge: mergeContacts },
  companies: { keys: companyDuplicateKeys, fields: mergedCompanyFields, body: CompanyMerge, merge: mergeCompanies },
} as const;

type Cleaned = keyof typeof cleaned;

function defineCleaning(command: Command, noun: Cleaned): void {
  const { keys, fields } = cleaned[noun];
  verb(command, 'duplicates', `list the values that several ${noun} share, the most frequent first`, 'customer')
    .addOption(new Option('--by <value>', 'what they share').choices(keys).default(keys[0]))
    .option('--limit <number>', 'maximum number of values', asInteger(1, 10_000), 100)
    .action(commandAction(duplicates, printGroups));

  verb(
    command,
    'merge',
    `make one of several ${noun}: --id stays and is filled from the others, which are deleted`,
    'customer',
  )
    .requiredOption('--id <id>', 'the one that stays', asUuid)
    .requiredOption('--merge-ids <ids>', 'the others, separated by commas', asUuids)
    .option(
      '--field <name=id>',
      `whose value is taken for a field; can be repeated. Fields: ${fields.join(', ')}`,
      addField,
    )
    .action(commandAction(merging(noun), ({ id, merged }) => `Merged ${merged.length} ${noun} into ${id}`));
}

function defineEnrichment(command: Command): void {
  verb(
    command,
    'enrich',
    'fill empty fields of contacts from the catalog; says what it costs, and starts only with --yes',
    'customer',
  )
    .option('--list <id>', 'only the members of this list', asUuid)
    .option('--ids <ids>', 'only these contacts, separated by commas', asUuids)
    .option('--fields <fields>', 'fields that may be filled; default: all', asSome('field', enrichedFields))
    .option('--overwrite', 'also fields that are not empty')
    .option('--max-credits <number>', 'the most that it may cost', asInteger(0, maxCredits))
    .option('--yes', 'start it; needs --max-credits')
    .action(commandAction(enrich, printEnrichment));
}

function addField(value: string, fields: Record<string, string> = {}): Record<string, string> {
  const [name = '', id = ''] = value.split('=');
  if (name === '') throw new InvalidArgumentError('It must be a field and an id, such as job_title=<id>.');
  return { ...fields, [name]: asUuid(id) };
}

const duplicates = ({ customer, by, limit }: { customer: string; by: DuplicateKey; limit: number }) =>
  withCustomer(customer, async ({ db }) => (await findDuplicates(db, customer, { by, paginate: { limit } })).rows);

const printGroups = (groups: DuplicateGroup[]): string =>
  table(groups, { VALUE: 'value', COUNT: 'count', IDS: ({ ids }) => ids.join(',') });

interface MergeOptions {
  customer: string;
  id: string;
  mergeIds: string[];
  field?: Record<string, string>;
}

const merging = (noun: Cleaned) => {
  const { body, merge } = cleaned[noun];
  const check = compile(body);
  return ({ customer, id, mergeIds: merge_ids, field: fields }: MergeOptions) =>
    withCustomer(customer, async ({ db }) => {
      const given: Merge = { id, merge_ids, ...(fields ? { fields } : {}) };
      const valid = check(given);
      if (valid !== true) throw valid.error;
      await db.transaction((sql) => merge(sql, customer, given));
      return { id, merged: merge_ids };
    });
};

const maxCredits = 1_000_000_000;

interface EnrichOptions {
  customer: string;
  list?: string;
  ids?: string[];
  fields?: EnrichedField[];
  overwrite?: true;
  maxCredits?: number;
  yes?: true;
}

function enrich({ customer: customerId, yes, ...options }: EnrichOptions): Promise<EnrichEstimate | JobStarted> {
  if (yes && options.maxCredits === undefined) throw new UsageError('--yes needs --max-credits');
  if (options.list && options.ids) throw new UsageError('give --list or --ids, not both');
  return withCustomer<EnrichEstimate | JobStarted>(customerId, async ({ db, config, catalog }) => {
    const { list, ids, fields, overwrite = false } = options;
    const body = {
      ...(ids ? { contact_ids: ids } : { filters: list ? { list_id: list } : {} }),
      ...(fields ? { fields } : {}),
      overwrite,
      max_credits: options.maxCredits ?? maxCredits,
    };
    const services = { db, catalog, caller: { customerId }, server: { config } };
    const spender = { customerId, apiKeyId: null };
    if (!yes) return toEnrichEstimate(await estimateJob('enrich_contacts', services, spender, body));
    const plan = await prepareJob('enrich_contacts', services, body);
    return db.transaction(async (sql) => startJob(sql, spender, await plan(sql, spender)));
  });
}

const printEnrichment = (result: EnrichEstimate | JobStarted): string =>
  'id' in result
    ? `Started job ${result.id}`
    : `${result.contacts} contacts cost at most ${result.cost} credits; ${result.available} are available. Add --yes to start.`;
