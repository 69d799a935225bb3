import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';
import type * as OpenTelemetry from './opentelemetry.ts';
import type { NewSpan, RequestSpan, Statement, TraceContext } from './spans.ts';

let tracing: Awaited<ReturnType<typeof OpenTelemetry.openTracing>> | undefined;

/**
 * Starts tracing if a collector is configured. Call it before the database is opened and the app is built.
 * @param log for warnings while the collector does not accept spans
 */
export async function startTracing(config: Config, log: FastifyBaseLogger): Promise<void> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined && config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT === undefined)
    return;
  const { openTracing } = await import('./opentelemetry.ts');
  tracing = await openTracing(config, log);
}

export async function stopTracing(): Promise<void> {
  const stopping = tracing;
  tracing = undefined;
  await stopping?.stop();
}

export const isTracing = (): boolean => tracing !== undefined;

export const inSpan = <T>(span: NewSpan, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inSpan(span, work) : work();

export const inPool = <T>(pool: string, work: () => Promise<T>): Promise<T> =>
  tracing ? tracing.inPool(pool, work) : work();

export const startRequestSpan = (name: string, headers: IncomingHttpHeaders): RequestSpan | undefined =>
  tracing?.startRequest(name, headers);

export const watchStatements = (statements: { prototype: Statement }): void => tracing?.watchStatements(statements);

export const currentTrace = (): TraceContext => tracing?.current() ?? {};

export function traceFields(): { trace_id?: string } {
  const trace_id = tracing?.currentTraceId();
  return trace_id === undefined ? {} : { trace_id };
}
