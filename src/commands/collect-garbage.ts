import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Makes what collects garbage at once, all of it, which takes some 0.05 s. Left to itself the collector lets a long load's
 * lie about: several times what the load holds, and more the longer it goes on.
 */
export function garbageCollector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
