export { SalesData } from './client.ts';
export type { Answer, Calls, CallOptions, ClientOptions, WaitOptions } from './client.ts';
export * from './errors.ts';
export type { Feed, FeedEvent, FeedPage, FollowOptions } from './events.ts';
export type { ImportFailure, ImportOptions, ImportResult } from './imports.ts';
export type {
  BatchItem,
  BatchOperation,
  BatchResult,
  Input,
  Item,
  Operation,
  Paged,
  Result,
  Schemas,
} from './types.ts';
export * from './webhooks.ts';
