import { expect, test } from 'vitest';
import { ConnectionSlots, type Holder } from '../../src/limits/connection-slots.ts';
import { addressGroup } from '../../src/network/address-group.ts';

const holder = (address: string): Holder => ({ group: addressGroup(address) });

test('the addresses of one IPv6 network share a limit, IPv4 addresses do not', () => {
  const places = new ConnectionSlots(10);
  const network = Array.from({ length: 9 }, (_, i) => holder(`2001:db8:0:1::${i + 1}`));
  expect(network.map((one) => places.admit(one).evicted)).toEqual([
    ...Array<undefined>(5).fill(undefined),
    ...network.slice(0, 4),
  ]);
  for (const other of ['192.0.2.1', '192.0.2.2', '2001:db8:0:2::1', '::ffff:192.0.2.3', '192.0.2.4'])
    expect(places.admit(holder(other))).toEqual({ admitted: true });
});

test('released slots are free again', () => {
  const places = new ConnectionSlots(3);
  const holders = ['192.0.2.1', '192.0.2.2', '192.0.2.3'].map(holder);
  for (let round = 0; round < 3; round++) {
    for (const one of holders) expect(places.admit(one)).toEqual({ admitted: true });
    for (const one of holders) places.setBusy(one);
    expect(places.admit(holder('192.0.2.4'))).toEqual({ admitted: false });
    for (const one of holders) places.release(one);
  }
});

test('a process with one slot serves one caller after the other', () => {
  const places = new ConnectionSlots(1);
  const [first, second] = [holder('192.0.2.1'), holder('192.0.2.1')];
  expect(places.admit(first)).toEqual({ admitted: true });
  expect(places.admit(second)).toEqual({ admitted: true, evicted: first });
  places.setBusy(second);
  expect(places.admit(holder('192.0.2.2'))).toEqual({ admitted: false });
});
