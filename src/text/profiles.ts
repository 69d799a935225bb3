/** Longest URL that is read (UTF-16 units). A longer text is not a profile. */
const maxLength = 2_048;

/**
 * Returns the form in which URLs of profiles are compared, or undefined if the text is not a profile, and so identifies
 * nobody. A profile is a host with a dot and at least two path segments, the last one with a letter or digit. The form is
 * percent-decoded and in lower case, without scheme, `www.` or a language host (`de.`), query, fragment and closing `/`.
 */
export function profileKey(url: string): string | undefined {
  if (url.length > maxLength) return undefined;
  const [host = '', ...path] = decode(formerProfileKey(url)).split('/');
  const segments = path.filter((segment) => segment !== '');
  const isProfile = hostname.test(host) && segments.length >= 2 && /[\p{L}\p{N}]/u.test(segments.at(-1)!);
  return isProfile ? [withoutLanguage(host), ...segments].join('/').normalize('NFC') : undefined;
}

/**
 * Returns the form in which earlier releases compared URLs of profiles. Digests of suppressions and keys of catalogs that
 * they stored contain it. Equal former forms have equal forms by `profileKey`.
 * @param url at most `maxLength` long
 */
export const formerProfileKey = (url: string): string =>
  withoutClosing(
    url
      .trim()
      .toLowerCase()
      .replace(/^[a-z][a-z0-9+.-]*:\/\//, '')
      .replace(/^www\./, '')
      .split(/[?#]/, 1)[0]!,
  );

/** `/\/*$/` would take quadratic time. */
function withoutClosing(text: string): string {
  let end = text.length;
  while (text[end - 1] === '/') end -= 1;
  return text.slice(0, end);
}

const hostname = /^[^\s.]+(?:\.[^\s.]+)+$/;

/** `de.linkedin.com` is `linkedin.com`; but `vk.com` and `ab.co.uk` have no language. */
const withoutLanguage = (host: string): string => host.replace(/^[a-z]{2}\.(?=[^.]{4,}\.)/, '');

/** Leaves a text as it is if it is not encoded properly, or hides a NUL, which PostgreSQL does not store. */
function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    const decoded = decodeURIComponent(text).toLowerCase();
    return decoded.includes('\0') ? text : decoded;
  } catch {
    return text;
  }
}
