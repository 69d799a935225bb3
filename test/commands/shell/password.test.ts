import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { UsageError } from '../../../src/commands/command.ts';
import { readPassword } from '../../../src/commands/user.ts';

/** Returns a standard input that delivers the given pieces. */
const input = (...pieces: (string | Buffer)[]) =>
  Readable.from(pieces.map((piece) => Buffer.from(piece))) as unknown as NodeJS.ReadStream;

const spaced = Buffer.from(' pass wörd x');

test.each<[string, NodeJS.ReadStream, string?]>([
  ['without the line break at the end', input('correct horse\n')],
  ['without a Windows line break at the end', input('correct horse\r\n')],
  ['in pieces', input('corr', 'ect ', 'horse')],
  ['with white space, and letters that are split', input(spaced.subarray(0, 7), spaced.subarray(7)), ' pass wörd x'],
])('a password from standard input is read %s', async (_, stream, password = 'correct horse') => {
  expect(await readPassword(stream)).toBe(password);
});

test.each<[string, NodeJS.ReadStream]>([
  ['11 characters', input('x'.repeat(11))],
  ['129 characters', input('x'.repeat(129))],
  ['two lines', input('correct horse\nbattery staple\n')],
  ['a NUL', input('correct horse\0battery')],
  ['bytes that are not UTF-8', input('correct horse', Buffer.of(0xff))],
  ['a terminal', Object.assign(input('correct horse battery'), { isTTY: true })],
])('a password from standard input is rejected as wrong usage if it is %s', async (_, stream) => {
  await expect(readPassword(stream)).rejects.toThrow(UsageError);
});
