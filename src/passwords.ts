import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { Gate } from './limits/gate.ts';

// OWASP's minimum for argon2id (Password Storage Cheat Sheet). Stored hashes contain their own parameters.
const parameters = { algorithm: 2 /* argon2id */, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 };

/**
 * Limits concurrent password hashing. One hash takes 19 MiB and one of the four threads of Node's pool, which DNS
 * look-ups and file access need too. A storm of logins therefore waits here, and is rejected with `unavailable` when
 * the queue is full, instead of taking all memory or all threads.
 */
const gate = new Gate({
  name: 'passwords',
  limit: Math.min(3, availableParallelism()),
  maxWaiting: 100,
  maxWaitMs: 2_000,
});

/** Hashes a new password with argon2id. Returns a PHC string with its own salt. */
export const hashPassword = (password: string): Promise<string> =>
  gate.runAlone(() => hash(normal(password), parameters));

/**
 * Verifies a password against a stored hash. Without a hash (no such account) it does the same work and returns false,
 * so timing does not reveal which accounts exist.
 */
export async function verifyPassword(stored: string | undefined, password: string): Promise<boolean> {
  const right = await gate.runAlone(() => verify(stored ?? decoy, normal(password)));
  return right && stored !== undefined;
}

/** Normalises a password, because keyboards compose letters differently (NIST SP 800-63B, 3.1.1.2). */
const normal = (password: string): string => password.normalize('NFKC');

/** The hash of a discarded random password, with the current parameters. Verified when an account does not exist. */
export const decoy =
  '$argon2id$v=19$m=19456,t=2,p=1$DCK8l8LEJDhMKBjKCcIJCQ$+u6E7aaSoOyZjPaYNlnHmDZ5AhwDjTtk6RnzsWu0ljs';
