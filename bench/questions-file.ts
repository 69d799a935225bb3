/** Contacts of one customer, as a CSV file to import. */
export interface People {
  contacts: number;
  /** Number of companies of which the contacts are. 0 for contacts without a company. */
  companies: number;
  /** True if the industry `Shipping` is common. */
  isShipping?: boolean;
}

const header =
  'first_name,last_name,work_email,job_title,industry,location_country,location_locality,mobile_phone,profnet_url,custom_fields.external_id,custom_fields.plan';

const pick = <T>(n: number, values: readonly T[]): T => values[Math.floor(n) % values.length]!;
const split = (values: string): string[] => values.split('|');

const firstNames = split(
  'Ada|Grace|Alan|Edsger|Barbara|Donald|Margaret|Linus|Мария|Олег|明|花子|Zoe|Rene|Noor|Ines|Tomas|Lena|Paul|Iris|Kurt|Emmy|Sofia',
);
const lastNames = [
  split('Berg|Stein|Wald|Brook|Field|Hill|Marsh|Wood|Stone|Ford|Lake|Moor|Иван|田中|Castel|Mont|Kowal|Nov'),
  split('man|son|er|ton|ley|strom|ova|ski|ham|by|wick|dale|ov|太郎|ini|eau|czyk|ak|sen|quist'),
  split('|a|e|o|i|us|el|ar|is|en'),
] as const;
const titles = [
  split('Senior|Junior|Chief|Deputy|Lead'),
  split('Engineer|Analyst|Buyer|Clerk|Designer|Auditor|Planner'),
] as const;
const industries = split('Software|Logistics|Retail|Energy|Banking|Food|Media');
const shipping = split('Shipping|Software|Shipping|Retail');
const countries = split('DE|US|FR|GB|SE|PL|BR|IT|ES|NL|JP');
const cities = split('Berlin|Boston|Lyon|Leeds|Malmo|Lodz|Recife|Turin|Sevilla|Utrecht|Osaka|Kyiv|Praha');
const domains = split('north|south|east|west|inner|outer');
const companyNames = [
  split('Nordic|Atlas|Summit|Harbour|Silver|Rapid|Blue|Grand|Urban|Prime|Вектор|東京'),
  split('Timber|Textiles|Foods|Motors|Paper|Energy|Media|Glass|Steel|Toys'),
] as const;

/**
 * Returns a CSV file of contacts. Values are unequally frequent, and names are in several scripts. A fifth of the
 * contacts belong to one company.
 */
export function fileOf({ contacts, companies, isShipping = false }: People): string {
  const lines = Array.from({ length: contacts }, (_, i) => lineOf(i + 1, companies, isShipping));
  return [companies === 0 ? header : `${header},company.name,company.industry`, ...lines].join('\n');
}

function lineOf(n: number, companies: number, isShipping: boolean): string {
  const cells = [
    pick(n * 7, firstNames),
    pick(n, lastNames[0]) + pick(n / 18, lastNames[1]) + pick(n / 360, lastNames[2]),
    `p${n}@${pick(n, domains)}-${n % 4001}.example`,
    `${pick(n, titles[0])} ${pick(n / 5, titles[1])}`,
    pick(n, isShipping ? shipping : industries),
    pick(n, countries),
    pick(n / 3, cities),
    `+49 30 ${1_000_000 + n}`,
    `https://profnet.example/in/person-${n}`,
    `ext-${n}`,
    pick(n, ['gold', 'silver', 'bronze']),
  ];
  const company = n % 5 === 0 ? 1 : 1 + (n % companies);
  const ofCompany = [
    `${pick(company, companyNames[0])} ${pick(company / 12, companyNames[1])} ${company % 2 === 0 ? 'Works' : 'Group'} ${company}`,
    pick(company, industries),
  ];
  return [...cells, ...(companies === 0 ? [] : ofCompany)].join(',');
}
