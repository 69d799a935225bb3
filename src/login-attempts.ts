import { createHash } from 'node:crypto';
import { addressGroup } from './address-group.ts';
import { Unauthorized } from './errors.ts';
import { fold } from './fold.ts';
import { refuseIfPast, type Limit, type RateLimits, type Use } from './rate-limits.ts';

/**
 * The limit on failed logins: per address and account, and three times as many per address. Never per account alone, or
 * anybody could lock anybody out.
 */
export class LoginAttempts {
  readonly #perAccount: Limit | undefined;
  readonly #perAddress: Limit | undefined;

  constructor({ login, loginAddress }: Pick<RateLimits, 'login' | 'loginAddress'>) {
    this.#perAccount = login;
    this.#perAddress = loginAddress;
  }

  /**
   * Takes nothing; for a check before the body is read.
   * @throws DomainError `rate_limited` when the address has no attempt left
   */
  async check(address: string): Promise<void> {
    const use = await this.#perAddress?.read(addressGroup(address));
    if (use) refuseIfPast([{ ...use, used: use.used + 1 }]);
  }

  /**
   * Runs an attempt at a password. Its place is taken first, so that attempts at once count too, and is given back unless
   * the attempt fails with `Unauthorized`.
   * @param email the account's, whether or not there is one
   * @throws DomainError `rate_limited` when there is no place; the attempt is not made
   */
  async run<T>(address: string, email: string, attempt: () => Promise<T>): Promise<T> {
    const places = await this.#take(address, email);
    const giveBack = () => Promise.all(places.map(({ limit, key, use }) => limit.giveBack(key, use)));
    try {
      refuseIfPast(places.map(({ use }) => use));
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
    const places = counted.map(async ({ limit, key }) => limit && { limit, key, use: await limit.count(key) });
    return (await Promise.all(places)).filter((place) => place !== undefined);
  }
}

/** Of one length, and nobody's address. */
const digest = (text: string): string => createHash('sha256').update(text).digest('base64url');
