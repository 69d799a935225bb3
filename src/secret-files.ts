import { readFileSync } from 'node:fs';

type Environment = Record<string, string | undefined>;

/**
 * Reads secrets from files, as Docker and Kubernetes provide them: if `NAME_FILE` is set, `NAME` gets the content of that
 * file, without a line break at its end. An empty variable counts as not set.
 * @param secrets names of the variables that can come from a file
 * @returns the environment with these secrets, and one message per fault
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

function readSecret(path: string): Secret {
  try {
    const text = readFileSync(path, 'utf8').replace(/\r?\n$/, '');
    return text === '' ? { fault: 'the file is empty' } : { text };
  } catch (error) {
    return { fault: `the file cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
}

/**
 * Returns a URL with this password instead of the one that it has, if any. The password can contain any character.
 * Works for URLs with several hosts too, which `URL` cannot parse.
 */
export const withPassword = (url: string, password: string): string =>
  url.replace(
    /^(\w+:\/\/)(?:([^:@/?#]*)(?::[^@/?#]*)?@)?/,
    (_, scheme: string, user = '') => `${scheme}${user}:${encodeURIComponent(password)}@`,
  );
