import { InvalidArgumentError, Option, type Command } from 'commander';
import { findPipelines, createPipeline, listPipelinesWithStages, salesStages } from '../queries/crm/pipelines.ts';
import type { NewStage } from '../queries/crm/pipelines.ts';
import { visibilities, type Pipeline, type StageStatus, type Visibility } from '../schemas/opportunities.ts';
import { commandAction, asCurrency, asInteger, asName, asText, table, verb } from './command.ts';
import { forCustomer } from './database.ts';

export function define(command: Command): void {
  // The HTTP API can only read pipelines and their stages.
  verb(command, 'create', 'create a pipeline with its stages', 'customer')
    .requiredOption('--name <name>', 'name', asName)
    .option('--description <text>', 'description', asText(5_000), '')
    .option('--currency <code>', 'ISO 4217', asCurrency, 'USD')
    .addOption(
      new Option('--visibility <visibility>', 'who can see the pipeline').choices(visibilities).default('PUBLIC'),
    )
    .option(
      '--stage <name:percent[:status]>',
      'a stage, e.g. Won:100:WON; repeat it for each stage, in order (default: the stages of the Sales pipeline)',
      addStage,
    )
    .action(commandAction(create, print));

  verb(command, 'list', "list a customer's pipelines with their stages, newest first", 'customer').action(
    commandAction(list, print),
  );
}

function addStage(text: string, stages: NewStage[] = []): NewStage[] {
  const [, name, percent, status = 'OPEN'] = /^(.+?):(\d+)(?::(OPEN|WON|LOST))?$/s.exec(text) ?? [];
  if (name === undefined || percent === undefined) {
    throw new InvalidArgumentError('It must look like Name:25 or Name:100:WON (OPEN, WON or LOST).');
  }
  const stage = {
    name: asName(name),
    probability_percentage: asInteger(0, 100)(percent),
    status: status as StageStatus,
  };
  return [...stages, stage];
}

interface Creation {
  customer: string;
  name: string;
  description: string;
  currency: string;
  visibility: Visibility;
  stage?: NewStage[];
}

const create = ({ customer, stage, ...given }: Creation): Promise<Pipeline> =>
  forCustomer(customer, async (sql, customerId) => {
    const { name, description, currency, visibility } = given;
    const stages = stage ?? salesStages;
    const id = await createPipeline(sql, customerId, { name, description, currency, visibility, stages });
    return (await findPipelines(sql, customerId, [id]))[0]!;
  });

const list = ({ customer }: { customer: string }) => forCustomer(customer, listPipelinesWithStages);

const print = (pipelines: Pipeline | Pipeline[]): string =>
  table(pipelines, {
    ID: 'id',
    NAME: 'name',
    CURRENCY: 'currency',
    VISIBILITY: 'visibility',
    STAGES: (pipeline) => pipeline.stages.map((stage) => `${stage.name} ${stage.probability_percentage}%`).join(', '),
  });
