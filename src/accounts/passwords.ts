import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { noPassword } from '../credentials/no-password.ts';
import { Gate } from '../limits/gate.ts';

// OWASP's minimum for argon2id (Password Storage Cheat Sheet). Stored hashes contain their own parameters.
const parameters = { algorithm: 2 /* argon2id */, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 };

/**
 * Limits how many passwords are hashed at the same time. If too many logins wait, more are rejected with `unavailable`.
 */
const gate = new Gate({
  name: 'passwords',
  // One hash takes 19 MiB of memory and one of the four threads that Node also needs for DNS and files.
  limit: Math.min(3, availableParallelism()),
  maxWaiting: 100,
  maxWaitMs: 2_000,
});

/** Returns an argon2id hash as a PHC string, which contains the random salt. */
export const hashPassword = (password: string): Promise<string> =>
  gate.runAlone(() => hash(normal(password), parameters));

/**
 * If `stored` is undefined because the account does not exist, returns false after the same computing time, so that
 * attackers cannot find out which accounts exist.
 */
export async function verifyPassword(stored: string | undefined, password: string): Promise<boolean> {
  const right = await gate.runAlone(() => verify(stored ?? noPassword, normal(password)));
  return right && stored !== undefined && stored !== noPassword;
}

/** Normalises to NFKC (NIST SP 800-63B, 3.1.1.2): keyboards encode the same character differently. */
const normal = (password: string): string => password.normalize('NFKC');
