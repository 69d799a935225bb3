import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config.ts';
import type { NewSpan, RequestSpan, Statement, TraceContext, Tracing } from './spans.ts';

/** The tracing of this process. Undefined while tracing is off; then nothing of OpenTelemetry is loaded. */
let tracing: Tracing | undefined;

/**
 * Starts tracing if the configuration names a collector. Call it before the database is opened and before the app is
 * built.
 * @param log gets a warning while the collector does not accept traces
 */
export async function startTracing(config: Config, log: FastifyBaseLogger): Promise<void> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined && config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT === undefined)
    return;
  const { openTracing } = await import('./opentelemetry.ts');
  tracing = await openTracing(config, log);
}

/** Sends the spans that were not sent yet, for a limited time, and stops tracing. */
export async function stopTracing(): Promise<void> {
  const stopping = tracing;
  tracing = undefined;
  await stopping?.stop();
}

export const isTracing = (): boolean => tracing !== undefined;

/** Runs `work` and records it as a span. If it fails, the span gets the error's code, but not its message. */
export const inSpan = <T>(span: NewSpan, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inSpan(span, work) : work();

/**
 * Runs `work` and records its database statements as spans. Each span has the name of the lane (the group of database
 * connections) that runs the statements.
 */
export const inLane = <T>(lane: string, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inLane(lane, work) : work();

/** Starts the span of a request. Returns undefined while tracing is off. */
export const startRequestSpan = (name: string, headers: IncomingHttpHeaders): RequestSpan | undefined =>
  tracing?.startRequest(name, headers);

/** Records the statements of the database driver as spans, while tracing is on. */
export const watchStatements = (statements: { prototype: Statement }): void => tracing?.watchStatements(statements);

/**
 * Returns the trace context of the running span, to be stored with work that another process does later. Empty if
 * there is none.
 */
export const currentTrace = (): TraceContext => tracing?.current() ?? {};

/** Returns the id of the running trace as a property for log lines. Returns `{}` if there is none. */
export function traceFields(): { trace_id?: string } {
  const trace_id = tracing?.currentTraceId();
  return trace_id === undefined ? {} : { trace_id };
}
