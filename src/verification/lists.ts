import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import roleAccounts from 'role-based-email-addresses';
import type { Address } from './address.ts';

/** Lists of what may well be delivered, and yet reaches no person for long. */
export interface Lists {
  /** The listed domain that hands out mailboxes to throw away: the address's own, or one above it. */
  disposableDomain(address: Address): string | undefined;
  /** The listed account that belongs to a task; what follows a `+` only sorts its mail. */
  roleAccount(address: Address): string | undefined;
}

/** Reads the lists. */
export function openLists(): Lists {
  const domains = disposableEmailBlocklistSet();
  const accounts = new Set(roleAccounts);
  return {
    disposableDomain: ({ domain }) => suffixes(domain).find((suffix) => domains.has(suffix)),
    roleAccount: ({ local }) => {
      const account = local.replaceAll('"', '').split('+')[0]!.toLowerCase();
      return accounts.has(account) ? account : undefined;
    },
  };
}

/** A domain and those above it: `a.b.c`, `b.c`, `c`. */
function suffixes(domain: string): string[] {
  const labels = domain.split('.');
  return labels.map((_, i) => labels.slice(i).join('.'));
}
