import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that call `runAlone`, and how long they run (seconds, on two cores). */
const alone: Record<string, number> = {
  'catalog/elasticsearch/faults': 190,
  'chaos/chaos': 120,
  'model/model': 70,
};

/** Other files that run for a minute or more. */
const long: Record<string, number> = {
  'contract/clients': 320,
  'pages/browser': 175,
  'backup/dump': 150,
  'clients/python': 130,
  'tracing/traces': 130,
  'catalog/elasticsearch/engine': 115,
  'database/citus/distribute': 110,
  'contract/auth-matrix': 85,
  'embedded-postgres/server': 85,
  'queries/plans': 80,
  'backup/base-backup': 75,
  'upgrade/upgrade': 70,
  proxies: 65,
  docs: 65,
  'catalog/elasticsearch/damage': 60,
};

const folder = join(import.meta.dirname, '..');
const nameOf = (file: TestSpecification): string => relative(folder, file.moduleId).replace(/\.test\.ts$/, '');
const secondsOf = (file: TestSpecification): number => alone[nameOf(file)] ?? long[nameOf(file)] ?? 4;

/**
 * Starts the files first that have a process of their own, because Vitest ends a shared process when the next file is one
 * of them. Of each kind it starts long files first, so that none of them runs by itself at the end. Of the files that run
 * alone, the next one starts when the one before has probably ended: a process that waits for its turn tests nothing.
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
