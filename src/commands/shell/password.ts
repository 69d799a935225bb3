import { lengthOf } from '../../text/code-points.ts';
import { UsageError } from './command.ts';

const maxLength = 4_096;

/**
 * Reads a password from standard input, without the line break at the end.
 * @throws UsageError if the input is a terminal, or not a single line of 12–128 characters
 */
export async function readPassword(input: NodeJS.ReadStream = process.stdin): Promise<string> {
  // A password is not a command line argument, because other users of the machine can read the arguments.
  if (input.isTTY)
    throw new UsageError("send the password through a pipe: printf %s 'the password' | … --password-stdin");
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
    if (length > maxLength) break;
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks));
  } catch {
    throw new UsageError('the password must be UTF-8 text');
  }
}
