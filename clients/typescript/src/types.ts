import type { components, operations as Schema } from './generated/schema.ts';
import type { operations } from './generated/operations.ts';

/** The types of the service's records and requests by name, such as `Schemas['Contact']`. */
export type Schemas = components['schemas'];

/** The name of an operation, such as `listContacts`. */
export type Operation = keyof typeof operations;

type PathOf<K extends Operation> = Schema[K]['parameters'] extends { path: infer P } ? P : unknown;

type QueryOf<K extends Operation> = Schema[K]['parameters'] extends { query?: infer Q }
  ? [NonNullable<Q>] extends [never]
    ? unknown
    : NonNullable<Q>
  : unknown;

type BodyOf<K extends Operation> = (typeof operations)[K] extends { takes: 'application/octet-stream' }
  ? {
      /** The file, as it is or as a stream. */ body: BodyInit;
      /** Whether the file is packed with gzip. */ isGzip?: boolean;
    }
  : Schema[K] extends { requestBody: { content: { 'application/json': infer B } } }
    ? { body: B }
    : Schema[K] extends { requestBody?: { content: { 'application/json': infer B } } }
      ? { body?: B }
      : unknown;

/** What an operation takes: the id in its path, if it has one, what its query can say, and its body. */
export type Input<K extends Operation> = PathOf<K> & QueryOf<K> & BodyOf<K>;

type JsonOf<R> = R extends { content: { 'application/json': infer T } } ? T : never;
type Responses<K extends Operation> = Schema[K]['responses'];

/** What an operation returns. Files are streams of bytes. */
export type Result<K extends Operation> = (typeof operations)[K] extends { returns: 'file' }
  ? ReadableStream<Uint8Array>
  : (typeof operations)[K] extends { returns: 'nothing' }
    ? void
    : Responses<K> extends { 200: infer R }
      ? JsonOf<R>
      : Responses<K> extends { 201: infer R }
        ? JsonOf<R>
        : never;

/** The operations that return their records in pages. */
export type Paged = {
  [K in Operation]: (typeof operations)[K] extends { pages: string } ? K : never;
}[Operation];

/** The type of the records in the pages of an operation. */
export type Item<K extends Paged> = Result<K> extends readonly (infer T)[] ? T : never;

/** The operations that take up to 1,000 items in one call. */
export type BatchOperation = Extract<Operation, `${string}Batch`>;

type BatchBody<K extends BatchOperation> = Input<K> extends { body: infer B } ? B : never;

/** An item of a batch. */
export type BatchItem<K extends BatchOperation> = BatchBody<K> extends { items: readonly (infer T)[] } ? T : never;

/** The settings of a batch. A batch that is cut into several calls cannot be atomic. */
export type BatchSettings<K extends BatchOperation> = Omit<BatchBody<K>, 'items' | 'atomic'>;

/** What became of an item of a batch. */
export type BatchResult<K extends BatchOperation> =
  Result<K> extends {
    data: { results: readonly (infer T)[] };
  }
    ? T
    : never;
