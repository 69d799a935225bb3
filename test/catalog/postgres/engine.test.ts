import { describe, expect, test } from 'vitest';
import type { Criterion } from '../../../src/catalog/catalog.ts';
import { matching } from '../../../src/catalog/postgres-search.ts';
import { record, recorder } from '../../../src/filters/sql.ts';
import { startApp } from '../../setup/app.ts';
import { conforms } from '../conformance.ts';

const services = await startApp();

describe('the catalog on Postgres', () => {
  conforms(services);

  test('looks up people by key and by names, with and without statistics', async () => {
    const hundred = Array.from({ length: 100 }, (_, n) => n);
    const criteria: Criterion[] = [
      { kind: 'keys', keys: hundred.map((n) => `u:${n}`) },
      { kind: 'named', people: hundred.map((n) => [`f${n}`, `l${n}`, `c${n}`]) },
    ];
    const sql = await services.owner.reserve();
    const planOf = async (criterion: Criterion): Promise<string> => {
      const { text, parameters } = record(matching(recorder, { criteria: [criterion] }));
      const page = `explain select from prospects p where ${text} order by (-p.score), p.id limit 1000`;
      return JSON.stringify(await sql.unsafe(page, parameters as string[]));
    };
    await sql`begin`;
    await sql`
      insert into prospects (
        id, person, first_name, last_name, job_title, job_company_name, job_company_industry, location_locality,
        location_region, location_country, verification_status, score, date_verified, has_email, has_phone, tokens,
        match_keys
      )
      select
        gen_random_uuid(), '{}', 'f' || n, 'l' || n, '', 'c' || n, '', '', '', '', 'valid', n % 101, now(), true, true,
        '{}', array['u:' || n]
      from generate_series(1, 5000) n`;
    const plans = [await planOf(criteria[0]!), await planOf(criteria[1]!)];
    await sql`analyze prospects`;
    plans.push(await planOf(criteria[0]!), await planOf(criteria[1]!));
    await sql`rollback`;
    sql.release();
    for (const plan of plans) {
      expect(plan).toMatch(/prospects_(match_keys|names)/);
      expect(plan).not.toMatch(/Seq Scan|prospects_best_first/);
    }
  });
});
