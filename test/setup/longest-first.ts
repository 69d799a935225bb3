import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that call `runAlone`, and how long they run (seconds, on two cores). */
const alone: Record<string, number> = {
  'catalog/elasticsearch/faults': 200,
  'chaos/chaos': 150,
  'jobs/unlock.faults': 100,
  'model/model': 90,
  'chaos/feed': 65,
};

/** Other files that run for long. */
const long: Record<string, number> = {
  'pages/browser': 160,
  'contract/validation': 40,
  'contract/auth-matrix': 60,
  'database/citus/distribute': 120,
  'catalog/elasticsearch/engine': 110,
  'queries/plans': 95,
  'clients/python': 80,
  'upgrade/upgrade': 70,
  'catalog/elasticsearch/damage': 70,
  'backup/dump': 65,
  'backup/base-backup': 65,
  'contract/clients': 65,
  'messy/imports': 30,
  'embedded-postgres/server': 60,
  'tracing/traces': 55,
  'contract/upper-case-ids': 20,
  'clients/typescript': 50,
  docs: 50,
  'routes/exports': 45,
  'jobs/verification/verify-emails': 45,
  'commands/catalog-kills': 40,
  'commands/privacy.elasticsearch': 40,
  'filters/plans': 40,
  'process/metrics': 35,
  'backup/move': 35,
  'routes/imports': 35,
  'pages/walk': 35,
  'filters/matching': 35,
  'jobs/unlock.damage': 35,
  'files/read-records': 35,
  'catalog/lost-shards': 30,
  'commands/catalog-streams': 25,
};

const folder = join(import.meta.dirname, '..');
const nameOf = (file: TestSpecification): string => relative(folder, file.moduleId).replace(/\.test\.ts$/, '');
const secondsOf = (file: TestSpecification): number => alone[nameOf(file)] ?? long[nameOf(file)] ?? 4;

/**
 * Starts the files first that have a process of their own, because Vitest ends a shared process when the next file is one
 * of them. Of each kind it starts long files first, so that none of them runs by itself at the end. Of the files that run alone, the next one
 * starts when the one before has probably ended: a process that waits for its turn tests nothing.
 */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const gone = Object.keys({ ...alone, ...long }).filter((name) => !existsSync(join(folder, `${name}.test.ts`)));
    if (gone.length > 0)
      throw new Error(`test/setup/longest-first.ts names files that do not exist: ${gone.join(', ')}`);
    const isolated = (file: TestSpecification) => Number(file.project.config.isolate);
    const sorted = files.toSorted((a, b) => isolated(b) - isolated(a) || secondsOf(b) - secondsOf(a));
    const violent = sorted.filter((file) => nameOf(file) in alone);
    const others = sorted.filter((file) => !(nameOf(file) in alone));
    const free = Array.from({ length: this.ctx.config.maxWorkers }, () => 0);
    const order: TestSpecification[] = [];
    let quietFrom = 0;
    while (order.length < files.length) {
      const worker = free.indexOf(Math.min(...free));
      const isTurn = violent.length > 0 && (quietFrom <= free[worker]! || others.length === 0);
      const file = (isTurn ? violent : others).shift()!;
      free[worker] = (isTurn ? Math.max(quietFrom, free[worker]!) : free[worker]!) + secondsOf(file);
      if (isTurn) quietFrom = free[worker];
      order.push(file);
    }
    return order;
  }
}
