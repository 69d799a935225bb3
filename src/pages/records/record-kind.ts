import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database, Transaction } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/open-export.ts';
import type { Batch, Outcome } from '../../queries/records/batches.ts';
import type { CreateRecord, DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import type { LastWrites } from '../../queries/records/last-writes.ts';
import type { RecordPage } from '../../queries/records/paging.ts';
import type { BatchKind } from '../../schemas/batches.ts';
import type { FieldTable, FormControl } from '../../schemas/base/field-table.ts';
import type { GivenFilters, GivenOrder } from '../../schemas/filters.ts';
import type { DeclaredObject } from '../../schemas/base/declared-fields.ts';
import type { User } from '../../schemas/users.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { html, moment, type Html, type PictureName } from '../base/html.ts';
import { verification } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';
import { listNames, type ListName } from '../../queries/crm/lists.ts';
import { canonicalId } from '../../text/ids.ts';

/** How a field of a record is shown and changed in a form. */
export interface FormField {
  /** Member of the API's body. */
  name: string;
  label: string;
  control: FormControl;
  group: string;
  /** Empty if there is none. */
  hint: string;
}

export const formFieldsOf = (table: FieldTable): FormField[] =>
  Object.entries(table).flatMap(([name, { label, form }]) =>
    form ? [{ name, label, control: 'text' as const, hint: '', ...form }] : [],
  );

interface Verified {
  verification_status: (typeof verificationStatuses)[number];
  last_verified: string | null;
  score: number;
}

/** Returns what the last verification found, in words. */
export const verificationFacts = (
  object: DeclaredObject,
  { verification_status, last_verified, score }: Verified,
): (readonly [name: string, value: Html])[] => [
  [fieldWord(object, 'verification_status'), verification(verification_status)],
  [fieldWord(object, 'last_verified'), moment(verification_status === 'unverified' ? null : last_verified, 'never')],
  [fieldWord(object, 'score'), html`${score}`],
];

/** What a list page asks for, in the form of the API's list call. */
export interface RecordRequest {
  filters?: GivenFilters;
  order_by?: GivenOrder;
  paginate?: { limit?: number; cursor?: string };
}

export interface FilterControl {
  /** Name of the parameter in the address. */
  name: string;
  label: string;
  /** `list`, `country`, `status` and `user` are choices; `since` is a first day; `hidden` only keeps what a link has set. */
  control: 'search' | 'text' | 'country' | 'list' | 'status' | 'user' | 'since' | 'hidden';
  /** Field of the API's filters. */
  field: string;
  /** The value may be a part of the field. */
  isPart?: true;
}

/** What a record's form and page need beside the record. */
export interface Surroundings {
  users: readonly User[];
}

export interface RecordColumn<Row> {
  /** In the address. */
  name: string;
  head: string;
  cell: (row: Row, users: readonly User[]) => Html;
  /** Field with an index by which it can be sorted. */
  sort?: string;
  /** It is shown only where somebody has chosen it. */
  isOptional?: true;
}

export interface ShownRecord {
  id: string;
  custom_fields: Record<string, string | number | boolean>;
  created_at: string;
  updated_at: string;
}

/** The columns that all records can show. */
export const timeColumns: readonly RecordColumn<ShownRecord>[] = [
  {
    name: 'changed',
    head: 'Last changed',
    cell: (row) => moment(row.updated_at),
    sort: 'updated_at',
    isOptional: true,
  },
  { name: 'created', head: 'Created', cell: (row) => moment(row.created_at), sort: 'created_at', isOptional: true },
];

/** The records that an activity is about. */
export type References = Partial<Record<'contact_id' | 'company_id' | 'opportunity_id', string | null>>;

/** Contacts or companies, for pages that treat both the same way. All functions are those that the API's routes call. */
export interface RecordKind<Row extends ShownRecord = ShownRecord> {
  object: DeclaredObject;
  path: string;
  noun: string;
  title: string;
  picture: PictureName;
  /** What to do where there are none yet. */
  advice: string;
  controls: readonly FilterControl[];
  /** The first one names the record. */
  columns: readonly RecordColumn<Row>[];
  nameOf: (row: Row) => string;
  fields: readonly FormField[];
  /** Fields of the page that no form changes, in words. */
  facts: (row: Row) => readonly (readonly [name: string, value: Html])[];
  /** What a new record has where its form is empty. */
  blank: object;
  /** A new record needs one field of each group. */
  needs: readonly (readonly string[])[];
  schemas: { create: object; patch: object; filters: object };
  batches: BatchKind;
  list: (db: Database, customerId: string, request: RecordRequest) => Promise<RecordPage<Row>>;
  countUpTo: (db: Database, customerId: string, filters: GivenFilters, most: number) => Promise<number>;
  find: FindRecords<Row>;
  create: CreateRecord<never>;
  update: UpdateRecord<never>;
  remove: DeleteRecord;
  write: (sql: Transaction, customerId: string, batch: Batch, last: LastWrites) => Promise<Outcome[]>;
  exported: (db: Database, customerId: string, request: RecordRequest) => ExportedRecords;
  /** Pages to which fields of the record's page lead, by the name of the field. */
  links: (row: Row) => Readonly<Record<string, string>>;
  /** Fields that stand below the record's name. */
  head: readonly string[];
  /** Which activities are the record's own, and what a new one is about. */
  workplace: (row: Row) => { filters: GivenFilters; about: References };
  /** Parts of the record's page below its fields, such as its lists. */
  related: (request: FastifyRequest, reply: FastifyReply, row: Row) => Promise<Html>;
  /** Says what a deletion detaches. */
  detaches: (db: Database, customerId: string, row: Row) => Promise<string>;
}

/**
 * Returns the newest lists, for a control that chooses one.
 * @param chosen id of a list that is always one of them, if it exists
 */
export const listChoices = ({ db, caller }: FastifyRequest, chosen = ''): Promise<ListName[]> =>
  listNames(db, caller.customerId, 100, canonicalId(chosen));
