import type { IncomingHttpHeaders } from 'node:http';

/** Attributes of a trace span. They must not contain secrets, values of SQL parameters or customer data. */
export type SpanAttributes = Record<string, string | number>;

/** The description of a trace span (one timed operation of a trace) that is about to start. */
export interface NewSpan {
  name: string;
  attributes?: SpanAttributes;
  /** True if the span starts a new trace. Otherwise the span becomes a child of the currently active span, if any. */
  isRoot?: boolean;
  /** The trace context of the operation that caused this span. The span gets a link to that operation. */
  cause?: TraceContext;
}

/**
 * A reference to a trace span that can be stored and sent to other processes. The field `traceparent` contains the ids
 * of the trace and of the span. The field is missing if tracing was off.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export interface TraceContext {
  traceparent?: string;
}

/** The trace span of an HTTP request. */
export interface RequestSpan {
  traceId: string;
  /** Runs a function with this span as the active span. Operations that the function starts become child spans. */
  run(work: () => void): void;
  /**
   * Ends the span.
   * @param hasFailed True if the service failed to handle the request.
   */
  end(attributes: SpanAttributes, hasFailed: boolean): void;
}

/** A database statement: the parts of the driver's internal object that tracing needs. */
export interface Statement {
  /**
   * The SQL text, with placeholders (`$1`, `$2` …) instead of values. Undefined until the driver sends the statement.
   */
  string?: string;
  /** True if the driver has been asked to send the statement. */
  executed: boolean;
  /** Asks the driver to send the statement. Only the first call has an effect. */
  handle(): unknown;
  resolve(result: unknown): unknown;
  reject(error: unknown): unknown;
}

/** Records trace spans and sends them to a trace collector. */
export interface Tracing {
  inSpan<T>(span: NewSpan, work: () => Promise<T>): Promise<T>;
  inLane<T>(lane: string, work: () => Promise<T>): Promise<T>;
  startRequest(name: string, headers: IncomingHttpHeaders): RequestSpan;
  /**
   * Records database statements as spans if they run in a lane (a group of database connections).
   * @param statements The statement class of the database driver.
   */
  watchStatements(statements: { prototype: Statement }): void;
  current(): TraceContext;
  currentTraceId(): string | undefined;
  stop(): Promise<void>;
}
