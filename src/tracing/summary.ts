/** OpenTelemetry recommends this limit (characters). */
const maxLength = 255;

/**
 * Returns the operation and the first table, e.g. `SELECT contacts`.
 * @see https://opentelemetry.io/docs/specs/semconv/db/database-spans/#generating-a-summary-of-the-query
 */
export function summaryOf(statement: string): string {
  const text = statement.replaceAll(/--[^\n]*|'(?:[^']|'')*'/g, ' ').toLowerCase();
  const outer = withoutParentheses(text);
  const verb = /^\s*with\b/.test(outer) ? /\b(?:select|insert|update|delete|merge)\b/ : /[a-z]+/;
  const [operation = 'statement'] = verb.exec(outer) ?? [];
  const table = (tableOf[operation]?.exec(outer) ?? tableOf['select']!.exec(text))?.[1];
  return [operation.toUpperCase(), ...(table === undefined ? [] : [table])].join(' ').slice(0, maxLength);
}

const tableOf: Record<string, RegExp> = {
  select: /\bfrom\s+"?([a-z_][\w.]*)/,
  insert: /\binto\s+"?([a-z_][\w.]*)/,
  update: /\bupdate\s+"?([a-z_][\w.]*)/,
  delete: /\bfrom\s+"?([a-z_][\w.]*)/,
};

function withoutParentheses(text: string): string {
  const outer = text.replaceAll(/\([^()]*\)/g, ' ');
  return outer === text ? text : withoutParentheses(outer);
}
