import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../process/config.ts';
import type { NewSpan, RequestSpan, Statement, TraceContext, Tracing } from './spans.ts';

/** The tracing of this process, or undefined while tracing is off. OpenTelemetry is loaded only if tracing is on. */
let tracing: Tracing | undefined;

/**
 * Starts tracing if a trace collector is configured. Must be called before the database is opened and before the app is
 * built.
 * @param log The logger for warnings while the collector does not accept spans.
 */
export async function startTracing(config: Config, log: FastifyBaseLogger): Promise<void> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined && config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT === undefined)
    return;
  const { openTracing } = await import('./opentelemetry.ts');
  tracing = await openTracing(config, log);
}

/** Sends the remaining spans, waiting a few seconds at most, and stops tracing. */
export async function stopTracing(): Promise<void> {
  const stopping = tracing;
  tracing = undefined;
  await stopping?.stop();
}

export const isTracing = (): boolean => tracing !== undefined;

/**
 * Runs `work` and records it as a trace span. If `work` fails, the error code is recorded, but not the error message.
 */
export const inSpan = <T>(span: NewSpan, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inSpan(span, work) : work();

/**
 * Runs `work` and records its database statements as trace spans. Each span contains the name of the lane (a group of
 * database connections) that runs the statements.
 */
export const inLane = <T>(lane: string, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inLane(lane, work) : work();

/** Starts the trace span of an HTTP request. Returns undefined if tracing is off. */
export const startRequestSpan = (name: string, headers: IncomingHttpHeaders): RequestSpan | undefined =>
  tracing?.startRequest(name, headers);

/** Records the statements of the database driver as trace spans. Does nothing if tracing is off. */
export const watchStatements = (statements: { prototype: Statement }): void => tracing?.watchStatements(statements);

/**
 * Returns the trace context of the active span. It can be stored with work that another process does later. Returns an
 * empty object if no span is active.
 */
export const currentTrace = (): TraceContext => tracing?.current() ?? {};

/** Returns the id of the active trace as a property for log lines, or an empty object if no trace is active. */
export function traceFields(): { trace_id?: string } {
  const trace_id = tracing?.currentTraceId();
  return trace_id === undefined ? {} : { trace_id };
}
