import { readFile } from 'node:fs/promises';

/** Shares of all processors' time (%). */
export interface ProcessorShares {
  /** Nothing was to be done. */
  'idle %': number;
  /** Taken by other machines on the same host, unseen otherwise: what is measured then is not this machine. */
  'stolen %': number;
}

/** Answers what the processors do from now on, where the system tells it (Linux). */
export async function watchProcessors(): Promise<() => Promise<Partial<ProcessorShares>>> {
  const before = await times();
  return async () => {
    const spent = (await times()).map((time, i) => time - before[i]!);
    if (spent.length === 0) return {};
    const [, , , idle, waiting, , , stolen] = spent as [number, number, number, number, number, number, number, number];
    const all = spent.slice(0, 8).reduce((sum, time) => sum + time, 0); // what guests get is in the first two
    return { 'idle %': (100 * (idle + waiting)) / all, 'stolen %': (100 * stolen) / all };
  };
}

/** proc(5): user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice; in ticks since the start. */
async function times(): Promise<number[]> {
  const text = await readFile('/proc/stat', 'utf8').catch(() => '');
  return (/^cpu +(.*)$/m.exec(text)?.[1] ?? '').split(' ').filter(Boolean).map(Number);
}
