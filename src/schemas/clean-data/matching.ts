import { Type, type Static } from '@sinclair/typebox';
import { Prospect } from '../prospects.ts';
import { Enum, Strict, Text, Url } from '../base/wire.ts';

const maxMatched = 100;

const WantedPerson = Strict(
  {
    profnet_url: Type.Optional(Url('Profile in the professional network. Decides before the names.')),
    first_name: Type.Optional(Text(255, 'First name. Only together with last name and company.')),
    last_name: Type.Optional(Text(255, 'Last name. Only together with first name and company.')),
    company_name: Type.Optional(Text(255, 'Name of the company that the person works for.')),
    location_country: Type.Optional(
      Text(255, 'Code or name of the country. Decides if several people have these names at this company.'),
    ),
  },
  { title: 'WantedPerson', description: 'A person: by the URL of the profile, or by both names and the company.' },
);

export const ProspectMatch = Strict(
  {
    people: Type.Array(WantedPerson, {
      minItems: 1,
      maxItems: maxMatched,
      description: 'The people to find. Each needs a profile URL, or both names and a company.',
    }),
  },
  {
    title: 'ProspectMatch',
    examples: [
      {
        people: [
          { profnet_url: 'https://profnet.example/in/ada' },
          { first_name: 'Ada', last_name: 'Lovelace', company_name: 'Analytical Engines Ltd', location_country: 'GB' },
        ],
      },
    ],
  },
);
export type ProspectMatch = Static<typeof ProspectMatch>;

const matchStatuses = ['matched', 'ambiguous', 'none'] as const;

export const ProspectMatches = Type.Object(
  {
    results: Type.Array(
      Type.Object({
        index: Type.Integer({ description: 'Index of the person in the request. The first is 0.' }),
        status: Enum(matchStatuses, '`matched`: exactly one person fits; `ambiguous`: several; `none`: nobody.'),
        prospect: Type.Optional(
          Type.Unsafe<Prospect>({
            ...Prospect,
            description: 'The person who fits, as in lists. Absent unless `matched`.',
          }),
        ),
        candidates: Type.Optional(
          Type.Array(Prospect, { description: 'Up to 5 people who fit, the best first. Absent unless `ambiguous`.' }),
        ),
        matched_on: Type.Array(Enum(['profnet_url', 'name_and_company', 'location_country'] as const), {
          description: 'What decided. Empty if nobody fits.',
        }),
      }),
      { description: 'One result for each person of the request, in the same order.' },
    ),
  },
  { title: 'ProspectMatches' },
);
export type ProspectMatches = Static<typeof ProspectMatches>;
