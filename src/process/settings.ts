import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { validateHeaderName, validateHeaderValue } from 'node:http';

type Environment = Record<string, string | undefined>;

/**
 * Reads secrets from files, as Docker and Kubernetes provide them. For example, `DATABASE_URL` gets the contents of the
 * file that `DATABASE_URL_FILE` names, without a final line break. The file must be a regular file of at most 64 KiB,
 * or a link to one.
 * @param secrets variables whose values can come from files
 * @returns the environment with the secrets, and one message for each problem
 */
export function readSecretFiles(
  environment: Environment,
  secrets: string[],
): { environment: Environment; faults: string[] } {
  const result = { ...environment };
  const faults: string[] = [];
  for (const name of secrets) {
    const path = environment[`${name}_FILE`] ?? '';
    if (path === '') continue;
    const { text = '', fault } = (environment[name] ?? '') === '' ? readSecret(path) : bothGiven(name);
    result[name] = text;
    if (fault !== undefined) faults.push(`${name}_FILE: ${fault}`);
  }
  return { environment: result, faults };
}

interface Secret {
  text?: string;
  fault?: string;
}

const bothGiven = (name: string): Secret => ({ fault: `${name} is set too; set only one of them` });

const maxBytes = 64 * 1024;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readSecret(path: string): Secret {
  let bytes: Buffer | undefined;
  try {
    bytes = readRegularFile(path);
  } catch (error) {
    return { fault: `the file cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
  if (!bytes) return { fault: 'must be a regular file, not a pipe or a device' };
  if (bytes.length > maxBytes) return { fault: `the file is larger than ${maxBytes / 1024} KiB` };
  if (bytes.includes(0)) return { fault: 'the file contains a NUL character' };
  try {
    const text = decoder.decode(bytes).replace(/\r?\n$/, '');
    return text === '' ? { fault: 'the file is empty' } : { text };
  } catch {
    return { fault: 'the file is not valid UTF-8' };
  }
}

/** Reads at most `maxBytes` + 1 bytes. Returns undefined for a pipe, a device or a socket. Never blocks. */
function readRegularFile(path: string): Buffer | undefined {
  // O_NONBLOCK: otherwise opening a pipe waits for its writer.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile() && !stats.isDirectory()) return undefined; // reading a directory throws EISDIR
    const bytes = Buffer.alloc(maxBytes + 1);
    let length = 0;
    for (let count = -1; count !== 0; length += count) count = readSync(fd, bytes, length, bytes.length - length, null);
    return bytes.subarray(0, length);
  } finally {
    closeSync(fd);
  }
}

/** Inserts or replaces the password of a URL. The URL may name several hosts, which the class `URL` cannot parse. */
export const withPassword = (url: string, password: string): string =>
  url.replace(
    /^(\w+:\/\/)(?:([^:@/?#]*)(?::[^@/?#]*)?@)?/,
    (_, scheme: string, user = '') => `${scheme}${user}:${encodeURIComponent(password)}@`,
  );

/**
 * Returns true for a percent-encoded header `name=value`. The value must not be empty or contain a semicolon, because
 * the OpenTelemetry library would silently drop a part.
 */
export function isHeader(text: string): boolean {
  const [, name, value] = /^([^=;]+)=([^;]+)$/.exec(text) ?? [];
  try {
    validateHeaderName(decodeURIComponent(name!.trim()));
    validateHeaderValue('value', decodeURIComponent(value!.trim()));
    return value!.trim() !== '';
  } catch {
    return false;
  }
}
