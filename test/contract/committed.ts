import { join } from 'node:path';
import { appWithoutDatabase, declaredRoutes, describeAccess, statusesOf, type DeclaredRoute } from './declared.ts';

/** Returns the expected content of the committed contract files, by path. */
export async function contractFiles(): Promise<Record<string, string>> {
  return {
    [join(import.meta.dirname, 'routes.txt')]: inventory((await declaredRoutes()).documented),
    [join(import.meta.dirname, 'openapi.json')]: await openapi(),
  };
}

/** Longer cells are not padded (characters). */
const maxWidth = 48;

/**
 * Formats the route inventory, one line per route: method, path, access, rate limits, success statuses, error statuses.
 */
export function inventory(routes: DeclaredRoute[]): string {
  const rows = routes
    .filter(({ method }) => method !== 'HEAD')
    .toSorted((a, b) => (a.url === b.url ? compare(a.method, b.method) : compare(a.url, b.url)))
    .map((route) => {
      const { success, errors } = statusesOf(route);
      const policies = route.policies.join(' ') || '-';
      return [route.method, route.url, describeAccess(route.access), policies, success.join(' '), errors.join(' ')];
    });
  const widths = [0, 1, 2, 3, 4, 5].map((column) =>
    Math.min(maxWidth, Math.max(...rows.map((row) => row[column]!.length))),
  );
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}

const compare = (a: string, b: string): number => (a < b ? -1 : 1);

async function openapi(): Promise<string> {
  const app = appWithoutDatabase();
  await app.ready();
  const document = app.swagger();
  await app.close();
  return `${JSON.stringify(document, null, 2)}\n`;
}
