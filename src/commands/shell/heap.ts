import { setFlagsFromString } from 'node:v8';

/** Keeps V8's young generation from growing, or lets it grow again. It never becomes smaller. */
export const keepYoungHeapSmall = (isSmall: boolean): void =>
  setFlagsFromString(`--semi-space-growth-factor=${isSmall ? 1 : 2}`);

/**
 * Limits the growth of V8's heap. Call it before the work begins.
 * @param growth how much the heap may grow between two full garbage collections (% of the memory in use)
 */
export function keepHeapSmall(growth: number): void {
  // By default, the heap grows far beyond what a process needs that handles one batch of records after the other.
  keepYoungHeapSmall(true);
  setFlagsFromString(`--heap-growing-percent=${growth}`);
}
