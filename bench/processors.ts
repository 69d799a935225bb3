import { readdir, readFile } from 'node:fs/promises';

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

/** Length of a tick of proc(5), in µs. */
const tick = 10_000;

/**
 * The processor time (µs) that a PostgreSQL server has used so far: its main process, and all processes that this has
 * started.
 */
export async function timeOfServer(main: number): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);
  const all = (await Promise.all(pids.map(readProcess))).filter((one) => one !== undefined);
  const ended = all.find(({ pid }) => pid === main)!.ticksOfEnded;
  const running = all.filter(({ pid, parent }) => pid === main || parent === main);
  return running.reduce((sum, { ticks }) => sum + ticks, ended) * tick;
}

/** The process that has started this one. */
export const parentOf = async (pid: number): Promise<number> => (await readProcess(pid))!.parent;

/** proc(5): the time of a process, and of its children that have ended. Undefined if the process has ended. */
async function readProcess(pid: number) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (stat === undefined) return undefined;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number) as [number, number, number, number];
  return { pid, parent: Number(fields[1]), ticks: user + system, ticksOfEnded: endedUser + endedSystem };
}
