/** What is known of an e-mail address, of contacts, companies and prospects alike. */
export const verificationStatuses = [
  'unverified',
  'verified',
  'invalid',
  'accept_all',
  'disposable',
  'do_not_mail',
  'unknown',
] as const;
