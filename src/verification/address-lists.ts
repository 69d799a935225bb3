import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import roleAccounts from 'role-based-email-addresses';
import type { Address } from './address.ts';

export interface AddressLists {
  /** Returns the listed domain: the address's own or a parent of it. */
  disposableDomain(address: Address): string | undefined;
  roleAccount(address: Address): string | undefined;
}

export function openAddressLists(): AddressLists {
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

/** Returns a domain and its parents: `a.b.c`, `b.c`, `c`. */
function suffixes(domain: string): string[] {
  const labels = domain.split('.');
  return labels.map((_, i) => labels.slice(i).join('.'));
}
