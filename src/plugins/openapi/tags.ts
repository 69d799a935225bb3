export const tags = [
  { name: 'contacts', description: 'People that you know: read, search, count, write and export them.' },
  { name: 'companies', description: 'The companies of contacts and opportunities.' },
  {
    name: 'lists',
    description: 'Groups of contacts. Members are added by hand, or enter and leave by the rules of the list.',
  },
  {
    name: 'imports',
    description: 'Contacts and companies from files: CSV or NDJSON of up to 1,000,000 records. Workers write them.',
  },
  { name: 'products', description: 'What you sell, with its list price.' },
  { name: 'opportunities', description: 'Possible sales: who may buy which products, and how far it has come.' },
  {
    name: 'activities',
    description: 'Notes, tasks, calls, meetings and e-mails with contacts, companies and opportunities.',
  },
  {
    name: 'pipelines',
    description: 'The stages through which opportunities go. Pipelines are set up by the operator, and only read here.',
  },
  {
    name: 'prospects',
    description:
      'The catalog of people that you can unlock. Reading it costs nothing; addresses and numbers are masked until a ' +
      'prospect is unlocked. Every success has the status 201 here.',
  },
  {
    name: 'jobs',
    description:
      'Work that takes longer than a call and spends credits: unlocking prospects and verifying e-mail addresses. A call ' +
      'starts a job; read the job until it ends, then read its results.',
  },
  { name: 'fields', description: 'What the fields of records are, for programs that map or show them.' },
  { name: 'history', description: 'Who has changed what, with the values before and after.' },
  { name: 'events', description: 'What changed, in an order in which a reader misses nothing.' },
  { name: 'customer', description: 'The account that the API key belongs to: subscription, users and credits.' },
  { name: 'api keys', description: 'API keys are managed by admins, in a session. API keys cannot manage keys.' },
  {
    name: 'approvals',
    description: 'Large calls of API keys with `approve_over`, which wait until an admin approves them.',
  },
  {
    name: 'webhooks',
    description:
      'Events that are sent to your own service when something changes. Endpoints are managed by admins in a session, or by keys with the scope `webhooks:manage`.',
  },
  {
    name: 'sessions',
    description: 'Users log in here. The token of a session manages API keys and webhooks, and nothing else.',
  },
  { name: 'health', description: 'For operators and load balancers.' },
] as const;
