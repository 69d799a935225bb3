import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const handbook = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'operating.md'), 'utf8');

/**
 * Returns the shell commands of a named code block in docs/operating.md. Its fence is followed by `sh name=…`. Tests run
 * these commands, so that the handbook stays right.
 * @throws Error if there is no such block
 */
export function commandsOf(name: string): string {
  const block = new RegExp(`^\`\`\`sh name=${name}\\n(.*?)^\`\`\`$`, 'ms').exec(handbook);
  if (!block) throw new Error(`docs/operating.md has no code block named ${name}`);
  return block[1]!;
}
