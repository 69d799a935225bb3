import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that run for a minute or more, and how long (seconds, on two cores). */
const long: Record<string, number> = {
  'contract/clients': 320,
  'catalog/elasticsearch/faults': 190,
  'pages/browser': 175,
  'backup/dump': 150,
  'clients/python': 130,
  'tracing/traces': 130,
  'chaos/chaos': 120,
  'catalog/elasticsearch/engine': 115,
  'database/citus/distribute': 110,
  'contract/auth-matrix': 85,
  'embedded-postgres/server': 85,
  'queries/plans': 80,
  'backup/base-backup': 75,
  'model/model': 70,
  'upgrade/upgrade': 70,
  proxies: 65,
  docs: 65,
  'catalog/elasticsearch/damage': 60,
};

const folder = join(import.meta.dirname, '..');
const nameOf = (file: TestSpecification): string => relative(folder, file.moduleId).replace(/\.test\.ts$/, '');
const secondsOf = (file: TestSpecification): number => long[nameOf(file)] ?? 4;

/**
 * Starts the files first that have a process of their own, because Vitest ends a shared process when the next file is one
 * of them. Of each kind it starts long files first, so that none of them runs by itself at the end. Files that call
 * `runAlone` are so far apart that none waits for another.
 */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const gone = Object.keys(long).filter((name) => !existsSync(join(folder, `${name}.test.ts`)));
    if (gone.length > 0)
      throw new Error(`test/setup/longest-first.ts names files that do not exist: ${gone.join(', ')}`);
    const isolated = (file: TestSpecification) => Number(file.project.config.isolate);
    return files.toSorted((a, b) => isolated(b) - isolated(a) || secondsOf(b) - secondsOf(a));
  }
}
