import type postgres from 'postgres';
import { addTotals } from '../test/setup/journal.ts';

/**
 * Fills customers with contacts and companies in bulk, written by SQL as an older program would write them: with folded
 * texts, without search terms. Values are unequally frequent, and names are in several scripts. A fifth of a customer's
 * contacts belong to one company. The industry `Shipping` is common, except among the contacts of the first customer.
 */
export async function fillForQuestions(
  owner: postgres.Sql,
  tenants: { id: string; contacts: number }[],
): Promise<void> {
  for (const [i, { id, contacts }] of tenants.entries()) {
    const companies = Math.max(2, Math.ceil(contacts / 25));
    await owner.unsafe(fillCompanies, [id, companies]);
    await owner.unsafe(fillContacts, [id, contacts, companies, i === 0]);
    await addTotals(owner, id, { contacts, companies });
  }
}

/** Company `n` of a customer has the id `00000000-0000-7000-8000-<n as 12 hex digits>`. */
const companyId = (n: string): string => `('00000000-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`;

const pick = (n: string, values: string): string => {
  const list = values.split('|');
  return `(array[${list.map((value) => `'${value}'`).join(',')}])[1 + (${n}) % ${list.length}]`;
};

const fillCompanies = `
  insert into companies (customer_id, id, company_name, industry, folded)
  select $1, ${companyId('n')}, name, industry,
    jsonb_build_object('company_name', lower(name), 'industry', lower(industry), 'type', '', 'size', '', 'location_country', '')
  from (
    select
      n,
      ${pick('n', 'Nordic|Atlas|Summit|Harbour|Silver|Rapid|Blue|Grand|Urban|Prime|Вектор|東京')} || ' '
        || ${pick('n / 12', 'Timber|Textiles|Foods|Motors|Paper|Energy|Media|Glass|Steel|Toys')} || ' '
        || case when n % 2 = 0 then 'Works ' else 'Group ' end || n as name,
      ${pick('n', 'Software|Logistics|Retail|Energy|Banking|Food|Media')} as industry
    from generate_series(1, $2::int) n
  ) company`;

const fillContacts = `
  insert into contacts (
    customer_id, first_name, last_name, work_email, job_title, industry, location_country, location_locality, mobile_phone,
    profnet_url, score, custom_fields, company_id, folded
  )
  select $1, first_name, last_name, email, title, industry, country, city, phone, url, score,
    jsonb_build_object('external_id', 'ext-' || n, 'plan', plan),
    company_id,
    jsonb_build_object(
      'first_name', lower(first_name), 'last_name', lower(last_name), 'work_email', lower(email), 'job_title', lower(title),
      'industry', lower(industry), 'location_country', lower(country), 'location_locality', lower(city), 'location_region', '',
      'mobile_phone', phone, 'profnet_url', url, 'custom_fields.external_id', 'ext-' || n, 'custom_fields.plan', plan,
      'search', lower(first_name || ' ' || last_name || ' ' || email)
    )
  from (
    select
      n,
      ${pick('n * 7', 'Ada|Grace|Alan|Edsger|Barbara|Donald|Margaret|Linus|Мария|Олег|明|花子|Zoe|Rene|Noor|Ines|Tomas|Lena|Paul|Iris|Kurt|Emmy|Sofia')} as first_name,
      ${pick('n', 'Berg|Stein|Wald|Brook|Field|Hill|Marsh|Wood|Stone|Ford|Lake|Moor|Иван|田中|Castel|Mont|Kowal|Nov')}
        || ${pick('n / 18', 'man|son|er|ton|ley|strom|ova|ski|ham|by|wick|dale|ov|太郎|ini|eau|czyk|ak|sen|quist')}
        || ${pick('n / 360', '|a|e|o|i|us|el|ar|is|en')} as last_name,
      'p' || n || '@' || ${pick('n', 'north|south|east|west|inner|outer')} || '-' || n % 4001 || '.example' as email,
      ${pick('n', 'Senior|Junior|Chief|Deputy|Lead')} || ' ' || ${pick('n / 5', 'Engineer|Analyst|Buyer|Clerk|Designer|Auditor|Planner')} as title,
      case when $4::boolean then ${pick('n', 'Software|Logistics|Retail|Energy|Banking|Food|Media')}
        else ${pick('n', 'Shipping|Software|Shipping|Retail')} end as industry,
      ${pick('n', 'DE|US|FR|GB|SE|PL|BR|IT|ES|NL|JP')} as country,
      ${pick('n / 3', 'Berlin|Boston|Lyon|Leeds|Malmo|Lodz|Recife|Turin|Sevilla|Utrecht|Osaka|Kyiv|Praha')} as city,
      '+49 30 ' || 1000000 + n as phone,
      'https://profnet.example/in/person-' || n as url,
      n % 101 as score,
      ${pick('n', 'gold|silver|bronze')} as plan,
      case when n % 5 = 0 then ${companyId('1')} else ${companyId('1 + n % $3::int')} end as company_id
    from generate_series(1, $2::int) n
  ) person`;
