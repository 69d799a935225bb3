import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Database, Transaction } from '../../database/db.ts';
import type { ExportedRecords } from '../../files/open-export.ts';
import type { Batch, Outcome } from '../../queries/records/batches.ts';
import type { CreateRecord, DeleteRecord, FindRecords, UpdateRecord } from '../../queries/records/finders.ts';
import type { LastWrites } from '../../queries/records/last-writes.ts';
import type { RecordPage } from '../../queries/records/paging.ts';
import type { BatchKind } from '../../schemas/batches.ts';
import type { GivenFilters } from '../../schemas/filters.ts';
import type { ImportObject } from '../../schemas/imports.ts';
import type { User } from '../../schemas/users.ts';
import type { verificationStatuses } from '../../schemas/verification.ts';
import { html, moment, type Html } from '../base/html.ts';
import type { PictureName } from '../base/pictures.ts';
import { verification } from '../base/values.ts';
import { fieldWord } from '../base/words.ts';

/** How a field of a record is shown and changed in a form. */
export interface FormField {
  /** Member of the API's body. */
  name: string;
  label: string;
  /** `lines`: a list of texts; `phones`: phone numbers; each on a line of its own. */
  control: 'text' | 'email' | 'url' | 'number' | 'country' | 'user' | 'lines' | 'phones' | 'company';
  /** Heading under which it stands. */
  group: string;
  /** Empty if there is none. */
  hint: string;
}

/** Returns a function that describes the fields under one heading. */
export const fieldsUnder =
  (object: ImportObject, group: string) =>
  (name: string, control: FormField['control'] = 'text', hint = ''): FormField => ({
    name,
    label: fieldWord(object, name),
    control,
    group,
    hint,
  });

interface Verified {
  verification_status: (typeof verificationStatuses)[number];
  last_verified: string | null;
  score: number;
}

/** Returns what the last verification found, in words. */
export const verificationFacts = (
  object: ImportObject,
  { verification_status, last_verified, score }: Verified,
): (readonly [name: string, value: Html])[] => [
  [fieldWord(object, 'verification_status'), verification(verification_status)],
  [fieldWord(object, 'last_verified'), moment(verification_status === 'unverified' ? null : last_verified, 'never')],
  [fieldWord(object, 'score'), html`${score}`],
];

/** What a list page asks for, in the form of the API's list call. */
export interface RecordRequest {
  filters?: GivenFilters;
  order_by?: Record<string, string>;
  paginate?: { limit?: number; cursor?: string };
}

/** A control above a list of records, by which people filter it. */
export interface FilterControl {
  /** Name of the parameter in the address. */
  name: string;
  label: string;
  /** `list`, `country` and `status` are choices; `hidden` only keeps what a link has set. */
  control: 'search' | 'text' | 'country' | 'list' | 'status' | 'hidden';
  /** Field of the API's filters. */
  field: string;
  /** The value may be a part of the field. */
  isPart?: true;
}

/** What a record's form and page need beside the record. */
export interface Surroundings {
  users: readonly User[];
}

/** A record of contacts or companies, as a page shows it. */
export interface ShownRecord {
  id: string;
  custom_fields: Record<string, string | number | boolean>;
  created_at: string;
  updated_at: string;
}

/** Contacts or companies, for pages that treat both the same way. All functions are those that the API's routes call. */
export interface RecordKind<Row extends ShownRecord = ShownRecord> {
  object: ImportObject;
  path: string;
  noun: string;
  title: string;
  picture: PictureName;
  /** What to do where there are none yet. */
  advice: string;
  controls: readonly FilterControl[];
  /** Fields with an index, and what people call each order. */
  sorts: readonly (readonly [sort: string, label: string])[];
  columns: readonly { head: string; cell: (row: Row) => Html }[];
  nameOf: (row: Row) => string;
  fields: readonly FormField[];
  /** Fields of the page that no form changes, in words. */
  facts: (row: Row) => readonly (readonly [name: string, value: Html])[];
  /** What a new record has where its form is empty. */
  blank: object;
  /** A new record needs one field of each group. */
  needs: readonly (readonly string[])[];
  schemas: { create: object; patch: object };
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
  /** Parts of the record's page below its fields, such as its lists. */
  related: (request: FastifyRequest, reply: FastifyReply, row: Row) => Promise<Html>;
  /** Says what a deletion detaches. */
  detaches: (db: Database, customerId: string, row: Row) => Promise<string>;
}
