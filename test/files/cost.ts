/** What a piece of work has cost this process. */
export interface Cost<T> {
  result: T;
  /**
   * The longest time for which it has computed without handling other events (ms). Of processor time: what other
   * processes take does not count.
   */
  heldMs: number;
  /** The most memory that the process had more than before (bytes). */
  memory: number;
}

/** What held the event loop before it was mended held it for seconds; a slow machine takes 250 ms for what takes 50. */
export const maxHeldMs = 1_000;

export async function costOf<T>(work: () => Promise<T>): Promise<Cost<T>> {
  const before = process.memoryUsage.rss();
  let last = process.threadCpuUsage();
  const cost = { heldMs: 0, memory: 0 };
  const look = (): void => {
    const { user, system } = process.threadCpuUsage(last);
    last = process.threadCpuUsage();
    cost.heldMs = Math.max(cost.heldMs, (user + system) / 1_000);
    cost.memory = Math.max(cost.memory, process.memoryUsage.rss() - before);
  };
  const timer = setInterval(look, 1);
  try {
    const result = await work();
    look();
    return { result, ...cost };
  } finally {
    clearInterval(timer);
  }
}
