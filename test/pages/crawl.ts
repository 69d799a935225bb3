/** A page as a crawl finds it. */
interface FoundPage {
  /** Path and query. */
  path: string;
  status: number;
  body: string;
}

/**
 * Opens all pages that links lead to, beginning at the first page, one of each kind: two pages that differ only in an
 * id or in their parameters are of the same kind. Files are left out.
 */
export async function crawl(read: (path: string) => Promise<Omit<FoundPage, 'path'>>): Promise<FoundPage[]> {
  const waiting = ['/app'];
  const kinds = new Set(waiting);
  const pages: FoundPage[] = [];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    const { status, body } = await read(path);
    pages.push({ path, status, body });
    for (const link of linksOf(body)) {
      if (kinds.has(kindOf(link))) continue;
      kinds.add(kindOf(link));
      waiting.push(link);
    }
  }
  return pages;
}

/** Returns the path of a page with placeholders for ids, and a question mark if it has parameters. */
export function kindOf(path: string): string {
  const { pathname, search } = new URL(path, 'http://pages.invalid');
  return `${pathname.replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, ':id')}${search === '' ? '' : '?'}`;
}

/** Returns the links of a page to other pages of the service. */
const linksOf = (body: string): string[] =>
  [...body.matchAll(/<a\s[^>]*?href="(\/app[^"]*)[^>]*>/g)]
    .filter(([tag]) => !/\sdownload/.test(tag))
    .map(([, href]) => href!.replaceAll(/&#(\d+);/g, (_entity, code) => String.fromCodePoint(Number(code))))
    .map((href) => href.replaceAll('&amp;', '&').replace(/#.*/, ''));
