import type { IncomingHttpHeaders } from 'node:http';

/** Properties of a span. They must not contain secrets, parameter values or data of customers. */
export type SpanAttributes = Record<string, string | number>;

/** A span to record. A span is one timed operation of a trace. */
export interface NewSpan {
  name: string;
  attributes?: SpanAttributes;
  /** Whether the span starts a new trace. If not, it belongs to the span that is running now, if there is one. */
  isRoot?: boolean;
  /** The stored trace context of the operation that caused this one. The span gets a link to it. */
  cause?: TraceContext;
}

/**
 * A reference to a span that can be stored and sent to other processes. `traceparent` identifies the span and its
 * trace. The field is missing if tracing was off.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export interface TraceContext {
  traceparent?: string;
}

/** The span of a request. It ends when the request ends. */
export interface RequestSpan {
  traceId: string;
  /** Runs a function with this span as the running one. The operations that it starts become parts of this span. */
  run(work: () => void): void;
  /**
   * Ends the span.
   * @param hasFailed whether the service failed to answer the request
   */
  end(attributes: SpanAttributes, hasFailed: boolean): void;
}

/** A database statement as the driver represents it. */
export interface Statement {
  /** The text with `$1`, `$2` … for the values. Undefined until the driver sends it. */
  string?: string;
  /** Whether the driver was asked to send the statement. */
  executed: boolean;
  /** Makes the driver send the statement. Only the first call has an effect. */
  handle(): unknown;
  resolve(result: unknown): unknown;
  reject(error: unknown): unknown;
}

/** Records traces and sends them to a collector. */
export interface Tracing {
  inSpan<T>(span: NewSpan, work: () => Promise<T>): Promise<T>;
  inLane<T>(lane: string, work: () => Promise<T>): Promise<T>;
  startRequest(name: string, headers: IncomingHttpHeaders): RequestSpan;
  /**
   * Records the statements of this class of the database driver, if they run in a lane (a group of database
   * connections).
   */
  watchStatements(statements: { prototype: Statement }): void;
  current(): TraceContext;
  currentTraceId(): string | undefined;
  stop(): Promise<void>;
}
