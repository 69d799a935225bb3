import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { NodeMonitor } from '../../../src/database/citus/node-monitor.ts';

/** Starts a monitor of a node whose test queries get no response. */
function monitorOfSilence(isExcused = () => false): NodeMonitor {
  const openProbe = () => ({ send: () => new Promise<void>(() => {}), close: () => {} });
  const monitor = new NodeMonitor({ node: 'one', openProbe, silenceMs: 500, isExcused, onChange: () => {} });
  onTestFinished(() => monitor.close());
  return monitor;
}

test('a node is down if its test query gets no response, also if other queries get theirs', async () => {
  const monitor = monitorOfSilence();
  const others = setInterval(() => monitor.responded(), 50);
  onTestFinished(() => clearInterval(others));
  expect(monitor.isUp).toBe(true);
  await expect.poll(() => monitor.isUp, { timeout: 10_000 }).toBe(false);
});

test('a node is not down while the coordinator is silent, too', async () => {
  const excuse = { holds: true };
  const monitor = monitorOfSilence(() => excuse.holds);
  await sleep(1_500);
  expect([monitor.isUp, monitor.isDoubtful]).toEqual([true, true]);
  excuse.holds = false;
  await expect.poll(() => monitor.isUp, { timeout: 10_000 }).toBe(false);
});
