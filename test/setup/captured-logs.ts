import { LogOutput } from '../../src/process/logger.ts';

/*
 * Checks every log line of the tests of a file: those of the app in this process, which logs at the lowest level, and
 * those of server processes. A line with a secret, an e-mail address or a failed handler makes the test file fail. Nothing is printed.
 */

/** What must not be in a log line, whatever test wrote it. */
const forbidden: readonly [what: string, pattern: RegExp][] = [
  ['an API key or a session token', /[a-z][a-z0-9]{1,15}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}/],
  ['an authorization header', /\b(?:X-API-Key|Bearer|Basic) +[\w+/=.-]{8,}/i],
  ['a hash of a password', /\$argon2/],
  ['a password', /correct horse battery|"(?:current_|new_)?password\\*":/i],
  ['a URL with a password', /:\/\/[^\s/"@]*:[^\s/"@]+@/],
  ['a handler that failed after its answer', /Promise errored, but reply\.sent/],
  ['an e-mail address', /[\p{L}\p{N}.!#$%&'*+=?^_`{|}~-]+@(?:[\p{L}\p{N}-]+\.)+\p{L}{2,}/u],
];

const leaks = new Set<string>();

/** Remembers a log line if it contains a secret. */
export function checkLogLine(line: string): void {
  for (const [what, pattern] of forbidden) if (pattern.test(line)) leaks.add(`${what} in: ${line.trimEnd()}`);
}

LogOutput.prototype.write = checkLogLine;

/**
 * Throws if a log line since the last call contained a secret.
 * @throws Error with the lines
 */
export function failOnLeaks(): void {
  const found = [...leaks];
  leaks.clear();
  if (found.length > 0) throw new Error(`These must not be in the log:\n${found.slice(0, 20).join('\n')}`);
}
