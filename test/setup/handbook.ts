import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const page = join(import.meta.dirname, '..', '..', 'docs', 'operating.md');

/**
 * Returns a named code block of the handbook. Its fence is followed by its language and `name=…`. Tests run these
 * commands and configurations, so that the handbook stays right.
 * @throws Error if there is no such block
 */
export function blockOf(name: string): string {
  const handbook = readFileSync(page, 'utf8');
  const block = new RegExp(`^\`\`\`\\w+ name=${name}\\n(.*?)^\`\`\`$`, 'ms').exec(handbook);
  if (!block) throw new Error(`docs/operating.md has no code block named ${name}`);
  return block[1]!;
}
