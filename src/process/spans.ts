/** Attributes of a span. They must not contain secrets, values of SQL parameters or customer data. */
export type SpanAttributes = Record<string, string | number>;

export interface NewSpan {
  name: string;
  attributes?: SpanAttributes;
  isRoot?: boolean;
  cause?: TraceContext;
}

/**
 * Id of a span, which can be stored and sent to other processes. Empty if tracing was off.
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export interface TraceContext {
  traceparent?: string;
}

export interface RequestSpan {
  traceId: string;
  run(work: () => void): void;
  end(attributes: SpanAttributes, hasFailed: boolean): void;
}

export interface Statement {
  /** The SQL text, with placeholders instead of values. Undefined until the statement is sent. */
  string?: string;
  executed: boolean;
  handle(): unknown;
  resolve(result: unknown): unknown;
  reject(error: unknown): unknown;
}
