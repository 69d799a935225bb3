import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../setup/at-end.ts';
import { needPrometheus, noPrometheus, promtool } from '../setup/prometheus.ts';

const root = join(import.meta.dirname, '..', '..');
const rules = join(root, 'deploy', 'monitoring', 'alerts.yml');
const folder = await temporaryFolder();

/**
 * Time series, each with a value for every minute, as promtool notates them: `0+60x30` rises by 60 a minute, `_` is nothing.
 * Those of an alert that is looked at after more than 100 minutes have one for every ten, because each is evaluated.
 */
type Series = Record<string, string>;

/** After how many minutes an alert is looked at, with what it fires then, and with what it does not. */
type Cases = [at: number, fires: Series[], quiet: Series[]];

const instance = (values: string, name = 'a', job = 'api'): Series => ({
  [`up{job="sales-data-${job}", instance="${name}"}`]: values,
});
const requests = (good: string, bad: string): Series => ({
  'http_server_request_duration_seconds_count{http_response_status_code="200"}': good,
  'http_server_request_duration_seconds_count{http_response_status_code="503"}': bad,
});
const slow = (withinASecond: string, all: string): Series => ({
  'http_server_request_duration_seconds_bucket{le="1"}': withinASecond,
  'http_server_request_duration_seconds_bucket{le="5"}': all,
  'http_server_request_duration_seconds_bucket{le="+Inf"}': all,
  http_server_request_duration_seconds_count: all,
});
const proxied = (all: string, ofService: string): Series => ({
  'haproxy_frontend_http_responses_total{proxy="public", code="5xx"}': all,
  'haproxy_server_http_responses_total{proxy="api", server="api1", code="5xx"}': ofService,
});
const disk = (free: string, fstype = 'ext4'): Series => ({
  [`node_filesystem_avail_bytes{mountpoint="/", fstype="${fstype}"}`]: free,
  [`node_filesystem_size_bytes{mountpoint="/", fstype="${fstype}"}`]: '100x60',
});
const connections = (open: string): Series => ({
  'pg_stat_activity_count{state="idle"}': open,
  pg_settings_max_connections: '320x60',
});
const one = (name: string, values: string): Series => ({ [name]: values });
/** What ends after a minute. */
const blip = '1x10 0 1x49';

/** The cases of an alert on one series: with these values it fires, with the others it does not. */
const single = (series: string, at: number, fires: string, ...quiet: string[]): Cases => [
  at,
  [one(series, fires)],
  quiet.map((values) => one(series, values)),
];
const started = 'process_start_time_seconds{job="sales-data-api", instance="a"}';
const jobsFailed = 'sales_data_jobs_finished_total{type="verify_email", status="FAILED"}';
const check = (name: string, values: string) => one(`sales_data_check_up{check="${name}"}`, values);
const webhooks = (standing: string, values: string) =>
  one(`sales_data_webhook_oldest_seconds{standing="${standing}"}`, values);
const backup = (values: string) => one('sales_data_backup_finished_seconds', values);

/** Instances of the API that are up, and others beside them. A target that is gone ends its series: `_`. */
const beside = (values: string, name = 'b'): Series => ({ ...instance('1x60'), ...instance(values, name) });
const worker = (values: string, name = 'w'): Series => instance(values, name, 'worker');

const alerts: Record<string, Cases> = {
  InstanceDown: [
    20,
    [beside('1x10 0x50'), beside('1x10 _x50'), { ...worker('1x60'), ...worker('1x10 _x50', 'v') }],
    [beside(blip), instance('1x60'), beside('_x10 1x50')],
  ],
  NoInstance: [20, [instance('1x10 0x50'), instance('1x10 _x50'), worker('1x60')], [beside('1x10 0x50')]],
  NoWorker: [
    20,
    [worker('1x10 0x50'), worker('1x10 _x50'), instance('1x60')],
    [{ ...worker('1x60'), ...worker('1x10 0x50', 'v') }],
  ],
  Restarts: single(started, 35, '1x20 100+100x8 900x60', '1x20 100x5 200x60'),
  DatabaseDown: single('sales_data_database_up{instance="a"}', 20, '1x10 0x50', blip),
  // Quiet: a single error where little happens, and a share of one in a thousand.
  ErrorBudgetFast: [
    30,
    [requests('0+6000x60', '0x15 0+600x45')],
    [requests('0+1x60', '0x20 1x40'), requests('0+60000x60', '0+60x60')],
  ],
  ErrorBudgetSlow: [
    400,
    [requests('0+10000x42', '0+80x42')],
    [requests('0+10000x42', '0+50x42'), requests('0+10x42', '0x39 1x3')],
  ],
  Slow: [40, [slow('0+90x60', '0+100x60')], [slow('0+995x60', '0+1000x60'), slow('0+0.9x60', '0+1x60')]],
  ProxyRefuses: [
    30,
    [
      proxied('0x10 0+20x50', '0x60'),
      one('haproxy_frontend_http_responses_total{proxy="public", code="5xx"}', '0+20x60'),
    ],
    [proxied('0+20x60', '0+20x60')],
  ],
  RequestsRefused: single('sales_data_gate_refused_total{gate="search"}', 20, '0+60x60', '0+1x60'),
  EventLoopSlow: single('nodejs_eventloop_lag_p99_seconds', 20, '0.3x60', '0.2x60'),
  JobsWait: single('sales_data_jobs_oldest_pending_seconds{type="verify_email"}', 20, '0+60x60', '0+25x60'),
  JobsFail: single(jobsFailed, 30, '0x10 0+1x50', '0x10 2x50'),
  WebhooksWait: [20, [webhooks('working', '0+60x60')], [webhooks('failing', '100000x60')]],
  CatalogDown: [20, [check('catalog', '1x10 0x50')], [check('catalog', blip), check('workers', '0x60')]],
  Degraded: [30, [check('rate_limits', '1x10 0x50')], [check('rate_limits', '1x24 0x36'), check('postgres', '0x60')]],
  UnlocksNotIndexed: single('sales_data_unlocks_unindexed', 50, '5x60', '5x30 0 5x29'),
  DiskFull: [30, [disk('50x10 5x50')], [disk('20x60'), disk('1x60', 'tmpfs')]],
  ConnectionsNearLimit: [30, [connections('300x60')], [connections('200x60')]],
  ArchiveFails: single('pg_stat_archiver_failed_count', 50, '0x20 0+1x40', '3x60'),
  ArchiveOld: single('pg_stat_archiver_last_archive_age', 40, '0+60x60', '300x60'),
  BackupOld: [28 * 60, [backup('0x180'), {}], [backup('0x10 6000x170')]],
  CertificateExpires: single('probe_ssl_earliest_cert_expiry', 80, '86400x90', '2592000x90'),
};

const names = [...readFileSync(rules, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);

test('each alert has a case in which it fires, one in which it does not, and a section in the runbook', () => {
  expect(Object.keys(alerts)).toEqual(names);
  const handbook = readFileSync(join(root, 'docs', 'operating.md'), 'utf8');
  const runbook = /^## Runbook$.*?^## /ms.exec(handbook)![0];
  expect(runbook.match(/^### \w+$/gm)).toEqual(names.map((name) => `### ${name}`));
});

test.skipIf(noPrometheus)(`each alert fires when it should, and not otherwise ${needPrometheus}`, () => {
  const files = [1, 10].map((minutes) => {
    const interval = `${minutes}m`;
    const some = Object.entries(alerts).filter(([, [at]]) => at > 100 === minutes > 1);
    const tests = some.flatMap(([name, [at, fires, quiet]]) => {
      const group = (isFiring: boolean) => (series: Series) => ({
        name,
        interval,
        input_series: Object.entries(series).map(([key, values]) => ({ series: key, values })),
        promql_expr_test: [
          {
            expr: `min(clamp_max(count(ALERTS{alertname="${name}", alertstate="firing"}), 1)) or vector(0)`,
            eval_time: `${at}m`,
            exp_samples: [{ labels: '{}', value: isFiring ? 1 : 0 }],
          },
        ],
      });
      return [...fires.map(group(true)), ...quiet.map(group(false))];
    });
    const file = join(folder, `${interval}.json`); // JSON is YAML
    writeFileSync(file, JSON.stringify({ rule_files: [rules], evaluation_interval: interval, tests }));
    return file;
  });
  const { status, said } = promtool(['test', 'rules', ...files]);
  expect(status, said).toBe(0);
});
