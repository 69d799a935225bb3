import { readFileSync, statSync } from 'node:fs';
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
  try {
    const stats = statSync(path);
    // A pipe or a device could block, or never end. Reading a folder throws EISDIR.
    if (!stats.isFile() && !stats.isDirectory()) return { fault: 'must be a regular file, not a pipe or a device' };
    if (stats.size > maxBytes) return { fault: `the file is larger than ${maxBytes / 1024} KiB` };
    const text = decoder.decode(readFileSync(path)).replace(/\r?\n$/, '');
    if (text.includes('\0')) return { fault: 'the file contains a NUL character' };
    return text === '' ? { fault: 'the file is empty' } : { text };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const isUtf8 = code !== 'ERR_ENCODING_INVALID_ENCODED_DATA';
    return { fault: isUtf8 ? `the file cannot be read (${code})` : 'the file is not valid UTF-8' };
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
