import { faker } from '@faker-js/faker/locale/en';
import type { ContactCreate } from '../schemas/contacts.ts';

interface DemoCompany {
  company_name: string;
  industry: string;
  domain: string;
  locality: string;
  region: string;
  country: string;
}

const industries = [
  'Software', 'Logistics', 'Renewable Energy', 'Medical Devices', 'Financial Services',
  'Food Production', 'Construction', 'Machinery', 'Retail', 'Telecommunications',
]; // prettier-ignore

const places = [
  { locality: 'London', region: 'England', country: 'GB', dialling: '+44' },
  { locality: 'München', region: 'Bayern', country: 'DE', dialling: '+49' },
  { locality: 'Lyon', region: 'Auvergne-Rhône-Alpes', country: 'FR', dialling: '+33' },
  { locality: 'Łódź', region: 'Łódzkie', country: 'PL', dialling: '+48' },
  { locality: 'Austin', region: 'Texas', country: 'US', dialling: '+1' },
  { locality: 'São Paulo', region: 'São Paulo', country: 'BR', dialling: '+55' },
  { locality: 'Malmö', region: 'Skåne', country: 'SE', dialling: '+46' },
];

/** Generates contacts, some of one company. The same `count` always gives the same contacts. */
export function demoContacts(count: number): ContactCreate[] {
  faker.seed(20_260_101);
  const companies = Array.from({ length: Math.ceil(count / 5) }, demoCompany);
  return Array.from({ length: count }, () => demoContact(faker.helpers.arrayElement(companies)));
}

function demoCompany(): DemoCompany {
  const company_name = faker.company.name();
  const domain = `${faker.helpers
    .slugify(company_name)
    .toLowerCase()
    .replaceAll(/[^a-z0-9-]/g, '')}.example`;
  return {
    company_name,
    domain,
    industry: faker.helpers.arrayElement(industries),
    ...faker.helpers.arrayElement(places),
  };
}

function demoContact(company: DemoCompany): ContactCreate {
  const [first_name, last_name] = [faker.person.firstName(), faker.person.lastName()];
  const mailbox = `${first_name}.${last_name}`.toLowerCase().replaceAll(/[^a-z.]/g, '');
  const dialling = places.find(({ country }) => country === company.country)!.dialling;
  return {
    first_name,
    last_name,
    work_email: `${mailbox}@${company.domain}`,
    phone_numbers: faker.helpers.maybe(() => [{ country_code: dialling, number: faker.string.numeric(9) }]) ?? [],
    job_title: faker.person.jobTitle(),
    industry: company.industry,
    location_locality: company.locality,
    location_region: company.region,
    location_country: company.country,
    birth_year: faker.helpers.maybe(() => faker.number.int({ min: 1958, max: 2003 })) ?? null,
    company: { name: company.company_name, industry: company.industry },
    custom_fields: { lead_source: faker.helpers.arrayElement(['fair', 'website', 'referral', 'cold call']) },
  };
}
