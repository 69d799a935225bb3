import type postgres from 'postgres';
import { addTotals } from '../test/setup/journal.ts';

/**
 * Fills a customer with contacts in bulk, written by SQL as the service would write them: plain ASCII, so that folding is
 * lower case. Values are unequally frequent, as in life.
 */
export async function fillContacts(owner: postgres.Sql, customerId: string, count: number): Promise<void> {
  await owner`
    insert into contacts (customer_id, first_name, last_name, work_email, job_title, industry, location_country, score, folded)
    select ${customerId}, first_name, last_name, work_email, job_title, industry, country, score,
      jsonb_build_object(
        'first_name', lower(first_name), 'last_name', lower(last_name), 'work_email', work_email, 'job_title', lower(job_title),
        'industry', lower(industry), 'location_country', lower(country), 'location_locality', '', 'location_region', ''
      )
    from (
      select
        'First' || (n % 977) as first_name,
        'Last' || (n % 7919) as last_name,
        'person' || n || '@company' || (n % 4001) || '.example' as work_email,
        (array['Engineer', 'Analyst', 'Sales Manager', 'Director', 'Clerk'])[1 + n % 5] as job_title,
        (array['Software', 'Logistics', 'Retail', 'Energy', 'Banking', 'Food', 'Media'])[1 + n % 7] as industry,
        (array['DE', 'US', 'FR', 'GB', 'SE', 'PL', 'BR', 'IT', 'ES', 'NL', 'JP'])[1 + n % 11] as country,
        n % 101 as score
      from generate_series(1, ${count}::int) n
    ) person`;
  await addTotals(owner, customerId, { contacts: count });
  await owner`analyze contacts`;
}
