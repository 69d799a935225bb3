import { availableParallelism } from 'node:os';
import { hash, verify } from '@node-rs/argon2';
import { Gate } from './gate.ts';

// OWASP's least for argon2id (Password Storage Cheat Sheet). Stored hashes carry their own parameters.
const parameters = { algorithm: 2 /* argon2id */, memoryCost: 19 * 1024, timeCost: 2, parallelism: 1 };

/**
 * One hash takes 19 MiB and a thread of Node's pool of four, which look-ups of names and files need too. So a storm of
 * logins waits here, and past the queue is told to come back, instead of taking all memory or all threads.
 */
const gate = new Gate({
  name: 'passwords',
  limit: Math.min(3, availableParallelism()),
  maxWaiting: 100,
  maxWaitMs: 2_000,
});

/** The argon2id hash of a new password, as a PHC string with its own salt. */
export const hashPassword = (password: string): Promise<string> =>
  gate.runAlone(() => hash(normal(password), parameters));

/**
 * Whether the password is the one behind a stored hash. Without a hash, because there is no such account, the answer is no
 * after the same work: the time tells nothing about who has an account.
 */
export async function verifyPassword(stored: string | undefined, password: string): Promise<boolean> {
  const right = await gate.runAlone(() => verify(stored ?? decoy, normal(password)));
  return right && stored !== undefined;
}

/** The same password, however a keyboard composes its letters (NIST SP 800-63B, 3.1.1.2). */
const normal = (password: string): string => password.normalize('NFKC');

/** A hash with the parameters of the real ones, of a password thrown away. */
export const decoy =
  '$argon2id$v=19$m=19456,t=2,p=1$DCK8l8LEJDhMKBjKCcIJCQ$+u6E7aaSoOyZjPaYNlnHmDZ5AhwDjTtk6RnzsWu0ljs';
