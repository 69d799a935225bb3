import type { IncomingHttpHeaders } from 'node:http';

/** Must not contain secrets, values of SQL parameters or customer data. */
export type SpanAttributes = Record<string, string | number>;

export interface NewSpan {
  name: string;
  attributes?: SpanAttributes;
  /** Starts a new trace. Otherwise the span becomes a child of the active span, if any. */
  isRoot?: boolean;
  /** The operation that caused this one. The span gets a link to it. */
  cause?: TraceContext;
}

/**
 * Refers to a span, and can be stored and sent to other processes. Empty if tracing was off.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export interface TraceContext {
  traceparent?: string;
}

export interface RequestSpan {
  traceId: string;
  /** Operations that `work` starts become child spans. */
  run(work: () => void): void;
  /** @param hasFailed true if the service failed to handle the request */
  end(attributes: SpanAttributes, hasFailed: boolean): void;
}

export interface Statement {
  /** The SQL text, with placeholders instead of values. Undefined until the statement is sent. */
  string?: string;
  executed: boolean;
  /** Asks the driver to send the statement. Only the first call has an effect. */
  handle(): unknown;
  resolve(result: unknown): unknown;
  reject(error: unknown): unknown;
}

export interface Tracing {
  inSpan<T>(span: NewSpan, work: () => Promise<T>): Promise<T>;
  inLane<T>(lane: string, work: () => Promise<T>): Promise<T>;
  startRequest(name: string, headers: IncomingHttpHeaders): RequestSpan;
  watchStatements(statements: { prototype: Statement }): void;
  current(): TraceContext;
  currentTraceId(): string | undefined;
  stop(): Promise<void>;
}
