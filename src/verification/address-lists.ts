import { disposableEmailBlocklistSet } from 'disposable-email-domains-js';
import roleAccounts from 'role-based-email-addresses';
import type { Address } from './address.ts';

/** Checks e-mail addresses against two lists: domains of disposable addresses, and role accounts such as `info`. */
export interface AddressLists {
  /**
   * Returns the listed disposable domain that the address belongs to: its own domain or a parent domain. Returns
   * undefined if none is listed.
   */
  disposableDomain(address: Address): string | undefined;
  /**
   * Returns the role account that the address belongs to, such as `info` or `sales`. Returns undefined if the address
   * is not a role account. Ignores case, quotes and a tag after `+`.
   */
  roleAccount(address: Address): string | undefined;
}

/** Loads the lists of disposable domains and role accounts. */
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

/** Returns a domain and its parent domains: `a.b.c`, `b.c`, `c`. */
function suffixes(domain: string): string[] {
  const labels = domain.split('.');
  return labels.map((_, i) => labels.slice(i).join('.'));
}
