import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { namesOf } from '../../src/catalog/elasticsearch/indexes.ts';
import type { Config } from '../../src/process/config.ts';
import type { Prospect } from '../../src/schemas/prospects.ts';
import { askCluster, indexesBehind } from '../catalog/damage.ts';
import { runCli } from '../setup/cli.ts';

/** A catalog that is damaged while jobs use it. After each damage it is mended as docs/catalog.md tells operators. */
export class HurtCatalog {
  readonly #config: Config;
  readonly #environment: Record<string, string>;
  readonly #file: string;
  readonly #people: number;
  /** Counts of each kind of damage. */
  readonly damage = { writeBlocks: 0, aliasesLost: 0, deletions: 0 };

  private constructor(config: Config, environment: Record<string, string>, file: string, people: number) {
    this.#config = config;
    this.#environment = environment;
    this.#file = file;
    this.#people = people;
  }

  /** Imports the people for the first time and returns the catalog. */
  static async import(
    config: Config,
    environment: Record<string, string>,
    people: Prospect[],
    file: string,
  ): Promise<HurtCatalog> {
    await writeFile(file, people.map((one) => `${JSON.stringify(one)}\n`).join(''));
    const catalog = new HurtCatalog(config, { PATH: process.env['PATH']!, ...environment }, file, people.length);
    await catalog.#import();
    return catalog;
  }

  /**
   * Damages the catalog repeatedly, with each kind of damage in turn, until `stopping` is aborted. Leaves it repaired.
   */
  async suffer([from, to]: [number, number], stopping: AbortSignal): Promise<void> {
    const harms = [() => this.#delete(), () => this.#blockWrites(), () => this.#loseAlias()];
    for (let turn = 0; ; turn += 1) {
      await sleep(randomInt(from, to), undefined, { signal: stopping }).catch(() => undefined);
      if (stopping.aborted) return;
      const mend = await insist(harms[turn % harms.length]!);
      await sleep(randomInt(500, 1_500));
      await insist(mend);
      await this.#import();
    }
  }

  /** Runs the import until it succeeds; an interrupted import resumes. Throws if the reported counts are wrong. */
  async #import(): Promise<void> {
    for (;;) {
      const { code, stdout } = await runCli(['catalog', 'import', this.#file, '--json'], this.#environment);
      if (code !== 0) continue;
      const { people, loaded } = JSON.parse(stdout) as { people: number; loaded: number };
      if (people === this.#people && loaded === this.#people) return;
      throw new Error(`the import of ${this.#people} people reported wrong counts: ${stdout}`);
    }
  }

  async #blockWrites(): Promise<Mend> {
    const index = await this.#index();
    const block = (isSet: true | null) => this.#ask('PUT', `${index}/_settings`, { 'index.blocks.write': isSet });
    await block(true);
    this.damage.writeBlocks += 1;
    return () => block(null);
  }

  async #loseAlias(): Promise<Mend> {
    const [index, alias] = [await this.#index(), namesOf(this.#config).people];
    await this.#ask('DELETE', `${index}/_alias/${alias}`);
    this.damage.aliasesLost += 1;
    return () => this.#ask('POST', '_aliases', { actions: [{ add: { index, alias } }] });
  }

  /** The import that follows replaces the index. */
  async #delete(): Promise<Mend> {
    await this.#ask('DELETE', await this.#index());
    this.damage.deletions += 1;
    return () => Promise.resolve();
  }

  async #index(): Promise<string> {
    const [index] = await indexesBehind(this.#config.ELASTICSEARCH_URL!, namesOf(this.#config).people);
    if (index === undefined) throw new Error('The catalog has no index');
    return index;
  }

  #ask(method: string, path: string, body?: object): Promise<unknown> {
    return askCluster(this.#config.ELASTICSEARCH_URL!, method, path, body);
  }
}

type Mend = () => Promise<unknown>;

/** Retries until the call succeeds, because another fault may have stopped the cluster. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    const done = await call().then((value) => ({ value }), () => undefined); // prettier-ignore
    if (done) return done.value;
    await sleep(200);
  }
}
