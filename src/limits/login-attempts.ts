import { createHash } from 'node:crypto';
import { Unauthorized } from '../errors.ts';
import { addressGroup } from '../network/address-group.ts';
import { fold } from '../text/fold.ts';
import { refuseIfPast, type Limit, type RateLimits, type Use } from './rate-limits.ts';

/**
 * Limits failed logins per address and account, and, three times as high, per address. There is no limit per account
 * alone: anybody could lock out anybody.
 */
export class LoginAttempts {
  readonly #perAccount: Limit | undefined;
  readonly #perAddress: Limit | undefined;

  constructor({ login, loginAddress }: Pick<RateLimits, 'login' | 'loginAddress'>) {
    this.#perAccount = login;
    this.#perAddress = loginAddress;
  }

  /**
   * Checks the limit of an address without counting. Used before the body is read.
   * @throws DomainError `rate_limited` when the address has no attempt left
   */
  async check(address: string): Promise<void> {
    const use = await this.#perAddress?.read(addressGroup(address));
    if (use) refuseIfPast([{ ...use, used: use.used + 1 }]);
  }

  /**
   * Runs a password attempt. Counts it first, so that concurrent attempts count too, and reverts the count unless the
   * attempt fails with `Unauthorized`.
   * @param email the e-mail address of the account, whether or not the account exists
   * @throws DomainError `rate_limited` when no attempt is left; `attempt` is then not called
   */
  async run<T>(address: string, email: string, attempt: () => Promise<T>): Promise<T> {
    const slots = await this.#take(address, email);
    const giveBack = () => Promise.all(slots.map(({ limit, key, use }) => limit.giveBack(key, use)));
    try {
      refuseIfPast(slots.map(({ use }) => use));
      const result = await attempt();
      await giveBack();
      return result;
    } catch (error) {
      if (!(error instanceof Unauthorized)) await giveBack();
      throw error;
    }
  }

  async #take(address: string, email: string): Promise<{ limit: Limit; key: string; use: Use }[]> {
    const group = addressGroup(address);
    const counted = [
      { limit: this.#perAccount, key: `${group} ${digest(fold(email))}` },
      { limit: this.#perAddress, key: group },
    ];
    const slots = counted.map(async ({ limit, key }) => limit && { limit, key, use: await limit.count(key) });
    return (await Promise.all(slots)).filter((slot) => slot !== undefined);
  }
}

/** Hashes an account name: keys get a fixed length and do not reveal the e-mail address. */
const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
