import { createHash } from 'node:crypto';
import { Unauthorized } from '../errors.ts';
import { addressGroup } from '../network/address-group.ts';
import { fold } from '../text/fold.ts';
import { refuseIfPast, type Limit, type RateLimits, type Use } from './rate-limits.ts';

/**
 * Limits failed logins in two ways: for each pair of IP address and account, and, three times as high, for each
 * address. There is no limit for an account from all addresses together, because anybody could then lock out its owner.
 */
export class LoginAttempts {
  readonly #perAccount: Limit | undefined;
  readonly #perAddress: Limit | undefined;

  constructor({ login, loginAddress }: Pick<RateLimits, 'login' | 'loginAddress'>) {
    this.#perAccount = login;
    this.#perAddress = loginAddress;
  }

  /**
   * Checks whether an address has login attempts left. Does not count an attempt. Called before the body is read.
   * @throws DomainError `rate_limited` when no attempt is left
   */
  async check(address: string): Promise<void> {
    const use = await this.#perAddress?.read(addressGroup(address));
    if (use) refuseIfPast([{ ...use, used: use.used + 1 }]);
  }

  /**
   * Runs a login attempt. Counts it as failed before it runs, so that concurrent attempts count too. Reverts the count
   * unless the attempt throws `Unauthorized`.
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

/**
 * Hashes the name of an account for use in a counter's key. The key then has a fixed length and does not reveal the
 * e-mail address.
 */
const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
