import { createHash } from 'node:crypto';
import { Unauthorized } from '../errors.ts';
import { addressGroup } from '../network/address-group.ts';
import { fold } from '../text/fold.ts';
import { refuseIfPast, type Limit, type RateLimits, type Use } from './rate-limits.ts';

/**
 * Limits failed logins: for each account and IP address together, and for each IP address. An account alone has no
 * limit, because anybody could use it to lock out the owner.
 */
export class LoginAttempts {
  readonly #perAccount: Limit | undefined;
  readonly #perAddress: Limit | undefined;

  constructor({ login, loginAddress }: Pick<RateLimits, 'login' | 'loginAddress'>) {
    this.#perAccount = login;
    this.#perAddress = loginAddress;
  }

  /**
   * Throws if an IP address has no login attempts left. Does not count an attempt.
   * @throws DomainError `rate_limited` when no attempt is left
   */
  async check(address: string): Promise<void> {
    const use = await this.#perAddress?.read(addressGroup(address));
    if (use) refuseIfPast([{ ...use, used: use.used + 1 }]);
  }

  /**
   * Calls `attempt`, which checks a login. If `attempt` throws `Unauthorized`, a failed login is counted for the IP
   * address and the account.
   * @param email the e-mail address of the account, whether or not the account exists
   * @throws DomainError `rate_limited` when no attempt is left; `attempt` is then not called
   */
  async run<T>(address: string, email: string, attempt: () => Promise<T>): Promise<T> {
    // Counted as failed before it runs, so that concurrent attempts count too. A successful attempt is subtracted again.
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

/**
 * Hashes the e-mail address of an account for the key of a counter. So the key has a fixed length and does not reveal
 * the address.
 */
const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
