import { spawnSync } from 'node:child_process';

/** True if Prometheus is not installed; for `describe.skipIf`. */
export const noPrometheus = spawnSync('promtool', ['--version'], { stdio: 'ignore' }).status !== 0;
/** Suffix for the name of a test group that needs Prometheus; empty if it is installed. */
export const needPrometheus = noPrometheus ? '(needs prometheus: apt-get install prometheus)' : '';

/**
 * Runs promtool. Returns its exit code, which is 1 if it refuses what it was given and 3 if it only has advice, and what it
 * printed.
 */
export function promtool(words: string[], input = ''): { status: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync('promtool', words, { input, encoding: 'utf8' });
  return { status, said: stdout + stderr };
}
