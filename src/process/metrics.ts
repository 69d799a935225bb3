import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from '@prometheus-io/client';
import packageJson from '../../package.json' with { type: 'json' };

/*
 * Metrics that this process counts itself. They belong to the process, not to an app or a database, as Prometheus
 * expects: Prometheus adds up the counters of all processes. No label contains a customer, a key, an address or an id.
 */

export const processMetrics = new Registry();

export function measureProcess(): void {
  if (processMetrics.getSingleMetric('process_start_time_seconds')) return;
  collectDefaultMetrics({ register: processMetrics });
}

const registers = [processMetrics];

/**
 * Measures requests from the arrival of the headers to the end of the response (seconds).
 * @see https://opentelemetry.io/docs/specs/semconv/http/http-metrics/#metric-httpserverrequestduration
 */
export const requestDuration = new Histogram({
  name: 'http_server_request_duration_seconds',
  help: 'Duration of HTTP requests by route, method and status; unknown paths and methods that a path does not support count as one route.',
  labelNames: ['http_request_method', 'http_route', 'http_response_status_code'] as const,
  buckets: [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10],
  registers,
});

export const gateWait = new Histogram({
  name: 'sales_data_gate_wait_seconds',
  help: 'Time that an operation waited for a slot, by gate: a pool of the database, or the reads of the search cluster.',
  labelNames: ['gate'] as const,
  buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
  registers,
});

export const gateRefusals = new Counter({
  name: 'sales_data_gate_refused_total',
  help: 'Operations rejected because no slot became free in time, by gate.',
  labelNames: ['gate'] as const,
  registers,
});

export const limitedRequests = new Counter({
  name: 'sales_data_rate_limit_requests_total',
  help: 'Requests counted under a rate limit, by policy and outcome.',
  labelNames: ['policy', 'outcome'] as const,
  registers,
});

export const catalogCallDuration = new Histogram({
  name: 'sales_data_catalog_call_duration_seconds',
  help: 'Duration of calls to the search cluster, by outcome.',
  labelNames: ['outcome'] as const,
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60],
  registers,
});

export const finishedJobs = new Counter({
  name: 'sales_data_jobs_finished_total',
  help: 'Jobs that ended, by type and final status.',
  labelNames: ['type', 'status'] as const,
  registers,
});

/**
 * Counts credits by pool and kind of change: granted, reserved, spent, released or corrected. A correction that removes
 * credits counts as `adjust_down`.
 */
export const movedCredits = new Counter({
  name: 'sales_data_credits_total',
  help: 'Credits moved by ledger entries, by pool and kind.',
  labelNames: ['pool', 'kind'] as const,
  registers,
});

export const webhookDeliveries = new Counter({
  name: 'sales_data_webhook_deliveries_total',
  help: 'Tries to deliver an event to the endpoint of a webhook, by outcome.',
  labelNames: ['outcome'] as const,
  registers,
});

const buildInfo = new Gauge({
  name: 'sales_data_build_info',
  help: 'Always 1; the label is the release.',
  labelNames: ['version'] as const,
  registers,
});
buildInfo.set({ version: packageJson.version }, 1);
