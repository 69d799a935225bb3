import { lengthOf } from '../code-points.ts';
import { UsageError } from './command.ts';

const longest = 4_096;

/**
 * A new password from standard input, so that none stands on a command line, where every user of the machine could read
 * it. One line break at its end does not count.
 * @throws UsageError when there is none, or not one of 12–128 characters
 */
export async function readPassword(input: NodeJS.ReadStream = process.stdin): Promise<string> {
  if (input.isTTY) throw new UsageError("pipe the password in: printf %s 'the password' | … --password-stdin");
  const password = (await readText(input)).replace(/\r?\n$/, '');
  const length = lengthOf(password);
  if (length < 12 || length > 128) throw new UsageError('the password must have 12 to 128 characters');
  if (/[\r\n\0]/.test(password)) throw new UsageError('the password must be a single line');
  return password;
}

async function readText(input: NodeJS.ReadStream): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of input) {
    chunks.push(chunk as Buffer);
    length += (chunk as Buffer).length;
    if (length > longest) break;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError('the password must be UTF-8 text');
  }
}
