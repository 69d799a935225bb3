import { inspect } from 'node:util';
import { crc32 } from 'node:zlib';
import * as fc from 'fast-check';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { mintToken, RawToken, recogniseToken } from '../../src/access/credentials.ts';

describe('a new token', () => {
  test('is a prefix, 43 base62 characters and the CRC-32 of both in six', () => {
    const text = mintToken('sda').reveal();
    const [, body, check] = /^(sda_[0-9A-Za-z]{43})_([0-9A-Za-z]{6})$/.exec(text)!;
    expect(fromBase62(check!)).toBe(BigInt(crc32(body!)));
  });

  test('has 256 random bits: over many tokens, each digit takes values that a shorter secret cannot reach', () => {
    const values = Array.from({ length: 200 }, () => fromBase62(mintToken('sda').reveal().split('_')[1]!));
    expect(new Set(values).size).toBe(200);
    expect(values.every((value) => value < 2n ** 256n)).toBe(true);
    expect(values.some((value) => value >= 2n ** 255n)).toBe(true);
  });

  test('hashes to the SHA-256 of its whole text', () => {
    expect(new RawToken('abc').hash().toString('hex')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    );
  });
});

describe('a mistyped token is not recognised:', () => {
  test('any one character replaced', () => {
    const text = mintToken('sda').reveal();
    const replaced = fc.tuple(fc.nat(text.length - 1), fc.constantFrom('0', 'a', 'Z', '_', '-', ' ', 'é'));
    fc.assert(
      fc.property(replaced, ([at, letter]) => {
        fc.pre(text[at] !== letter);
        expect(recogniseToken(text.slice(0, at) + letter + text.slice(at + 1))).toBeUndefined();
      }),
    );
  });

  test.each([
    ['empty', () => ''],
    ['with white space around it', (text: string) => ` ${text}\n`],
  ])('%s', (_, change) => {
    expect(recogniseToken(change(mintToken('sda').reveal()))).toBeUndefined();
  });
});

describe('the clear text of a token', () => {
  const token = mintToken('sda');

  test.each([
    ['a template string', () => `key ${token as unknown as string}`],
    ['String()', () => String(token)],
    ['JSON', () => JSON.stringify({ token })],
    ['inspect, as console.log does', () => inspect({ deep: [token] }, { showHidden: true, depth: null })],
    ['its own properties', () => JSON.stringify(Object.getOwnPropertyDescriptors(token))],
    ['an error message', () => new Error(`refused ${token as unknown as string}`).message],
    ['a log line', () => logLine(token)],
  ])('is not in %s', (_, show) => {
    expect(show()).not.toContain(token.reveal().slice(4, 20));
  });
});

function fromBase62(text: string): bigint {
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  return Array.from(text).reduce((value, digit) => value * 62n + BigInt(digits.indexOf(digit)), 0n);
}

function logLine(token: RawToken): string {
  let line = '';
  pino({ level: 'info' }, { write: (text: string) => (line = text) }).info({ token }, `used ${String(token)}`);
  return line;
}
