import type { IncomingHttpHeaders } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  context,
  createContextKey,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import type { Context, Link, Span, Tracer } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { parseKeyPairsIntoRecord, setGlobalErrorHandler, W3CTraceContextPropagator } from '@opentelemetry/core';
import { detectResources, envDetector, resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from '@opentelemetry/sdk-trace-base';
import type { FastifyBaseLogger } from 'fastify';
import packageJson from '../../package.json' with { type: 'json' };
import type { Config } from './config.ts';
import type { NewSpan, RequestSpan, SpanAttributes, Statement, TraceContext } from './spans.ts';

const maxLength = 255;

/**
 * Returns the operation and the first table of an SQL statement, such as `SELECT contacts`.
 * @see https://opentelemetry.io/docs/specs/semconv/db/database-spans/#generating-a-summary-of-the-query
 */
export function summaryOf(statement: string): string {
  const text = statement.replaceAll(/--[^\n]*|'(?:[^']|'')*'/g, ' ').toLowerCase();
  const outer = withoutParentheses(text);
  const verb = /^\s*with\b/.test(outer) ? /\b(?:select|insert|update|delete|merge)\b/ : /[a-z]+/;
  const [operation = 'statement'] = verb.exec(outer) ?? [];
  const table = (tableOf[operation]?.exec(outer) ?? tableOf['select']!.exec(text))?.[1];
  return [operation.toUpperCase(), ...(table === undefined ? [] : [table])].join(' ').slice(0, maxLength);
}

const tableOf: Record<string, RegExp> = {
  select: /\bfrom\s+"?([a-z_][\w.]*)/,
  insert: /\binto\s+"?([a-z_][\w.]*)/,
  update: /\bupdate\s+"?([a-z_][\w.]*)/,
  delete: /\bfrom\s+"?([a-z_][\w.]*)/,
};

function withoutParentheses(text: string): string {
  const outer = text.replaceAll(/\([^()]*\)/g, ' ');
  return outer === text ? text : withoutParentheses(outer);
}

const flushMs = 3_000;
const warningIntervalMs = 60_000;

/**
 * Starts to record spans, and to send them to the collector in the background. While the collector is slow or
 * unavailable, buffers spans up to a limit, then drops them.
 */
export async function openTracing(config: Config, log: FastifyBaseLogger) {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  setGlobalErrorHandler(exportWarnings(log));
  const own = { 'service.name': config.OTEL_SERVICE_NAME, 'service.version': packageJson.version };
  const provider = new BasicTracerProvider({
    resource: detectResources({ detectors: [envDetector] }).merge(resourceFromAttributes(own)),
    spanProcessors: [new BatchSpanProcessor(await openExporter(config))],
  });
  // The provider is not registered for other libraries: the client of Elasticsearch would record spans of its own, with
  // ids of people and the cluster's error messages.
  return tracingWith(provider.getTracer(packageJson.name, packageJson.version), () => provider.shutdown());
}

async function openExporter(config: Config): Promise<SpanExporter> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: base = '', OTEL_EXPORTER_OTLP_HEADERS: headers = '' } = config;
  const url = config.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? `${base.replace(/\/+$/, '')}/v1/traces`;
  const { OTLPTraceExporter } =
    config.OTEL_EXPORTER_OTLP_PROTOCOL === 'http/json'
      ? await import('@opentelemetry/exporter-trace-otlp-http')
      : await import('@opentelemetry/exporter-trace-otlp-proto');
  return new OTLPTraceExporter({ url, headers: parseKeyPairsIntoRecord(headers) });
}

function exportWarnings(log: FastifyBaseLogger): (error: unknown) => void {
  let warnedAt = -Infinity;
  return (error) => {
    if (performance.now() - warnedAt < warningIntervalMs) return;
    warnedAt = performance.now();
    log.warn({ reason: exportFaultOf(error) }, 'the collector does not accept traces; spans are lost');
  };
}

/**
 * Returns why the collector did not take spans: an HTTP status, an error code such as `ECONNREFUSED`, or a message such
 * as `Request timed out`. Never returns a message from the collector.
 */
function exportFaultOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  if (typeof code === 'number') return `HTTP status ${code}`;
  if (message === 'Export failed with retryable status') return 'HTTP status 429, 502, 503 or 504';
  return typeof code === 'string' ? code : String(message);
}

const poolKey = createContextKey('pool');

function tracingWith(tracer: Tracer, shutdown: () => Promise<void>) {
  const watched = new WeakSet<Statement>();
  return {
    inSpan: <T>({ name, attributes = {}, isRoot = false, cause }: NewSpan, work: () => Promise<T>): Promise<T> => {
      const kind = isRoot ? SpanKind.CONSUMER : SpanKind.INTERNAL;
      const span = tracer.startSpan(name, { attributes, kind, root: isRoot, links: linksTo(cause) });
      return context.with(trace.setSpan(context.active(), span), () => endWith(span, work));
    },
    // A statement is sent when it is awaited, so that must happen here too.
    inPool: <T>(pool: string, work: () => Promise<T>): Promise<T> =>
      context.with(context.active().setValue(poolKey, pool), async () => await work()),
    startRequest: (name: string, headers: IncomingHttpHeaders) => startRequest(tracer, name, headers),
    watchStatements: ({ prototype }: { prototype: Statement }): void => {
      if (watched.has(prototype)) return;
      watched.add(prototype);
      watchHandle(tracer, prototype);
    },
    current: currentTrace,
    currentTraceId: (): string | undefined => trace.getActiveSpan()?.spanContext().traceId,
    stop: async (): Promise<void> => {
      await Promise.race([shutdown().catch(() => undefined), sleep(flushMs, undefined, { ref: false })]);
    },
  };
}

function currentTrace(): TraceContext {
  const headers: TraceContext & { tracestate?: string } = {};
  propagation.inject(context.active(), headers);
  const { traceparent } = headers;
  return traceparent === undefined ? {} : { traceparent };
}

function linksTo(cause: NewSpan['cause']): Link[] {
  const found = trace.getSpanContext(contextOf(cause?.traceparent));
  return found ? [{ context: found }] : [];
}

/**
 * Returns the trace context of the header `traceparent`, empty if the header is missing or malformed. Ignores
 * `tracestate`, which could bring any text of the caller to the collector.
 */
const contextOf = (traceparent: string | string[] | undefined): Context =>
  propagation.extract(ROOT_CONTEXT, { traceparent });

async function endWith<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    fail(span, codeOf(error));
    throw error;
  } finally {
    span.end();
  }
}

/** Marks a span as failed. Records the error code, but not the message, which can contain customer data. */
function fail(span: Span, code: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', code);
}

function codeOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown };
  return typeof code === 'string' || typeof code === 'number' ? String(code) : String(name);
}

function startRequest(tracer: Tracer, name: string, headers: IncomingHttpHeaders): RequestSpan {
  const caller = contextOf(headers['traceparent']);
  const span = tracer.startSpan(name, { kind: SpanKind.SERVER }, caller);
  const running = trace.setSpan(caller, span);
  return {
    traceId: span.spanContext().traceId,
    run: (work) => context.with(running, work),
    end: (attributes: SpanAttributes, hasFailed) => {
      span.setAttributes(attributes);
      if (hasFailed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end();
    },
  };
}

/**
 * Patches the driver so that each statement inside another span gets its own span. Statements outside a span are not
 * traced, so background work starts no traces.
 */
function watchHandle(tracer: Tracer, prototype: Statement): void {
  const { handle } = prototype;
  prototype.handle = function watchedHandle(this: Statement) {
    const pool = context.active().getValue(poolKey);
    if (!this.executed && typeof pool === 'string' && trace.getActiveSpan()?.isRecording()) record(tracer, this, pool);
    return handle.call(this);
  };
}

function record(tracer: Tracer, statement: Statement, pool: string): void {
  const attributes = { 'db.system.name': 'postgresql', 'sales_data.lane': pool };
  const span = tracer.startSpan('statement', { kind: SpanKind.CLIENT, attributes });
  const end = () => {
    const summary = summaryOf(statement.string ?? '');
    span.updateName(summary).setAttribute('db.query.summary', summary).end();
  };
  const { resolve, reject } = statement;
  statement.resolve = (result) => {
    end();
    return resolve(result);
  };
  statement.reject = (error) => {
    fail(span, codeOf(error));
    end();
    return reject(error);
  };
}
