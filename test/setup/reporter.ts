import type { Reporter, TestCase, TestModule, TestSuite } from 'vitest/node';

/**
 * Prints what did not run and the counts: `NOT RUN: 3 tests need Chromium (…)`, then `N passed, N failed` as the last
 * line. The name of a test group says what it needs: `describe.runIf(there)('/docs (needs Chromium: apt-get install
 * chromium)', …)`. With `CI=true`, a test that did not run counts as failed.
 */
export default class PlainCounts implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()]);
    const inState = (state: string) => tests.filter((test) => test.result().state === state);
    const missing = Map.groupBy(inState('skipped'), needOf);
    for (const [need, { length }] of missing)
      print(`NOT RUN: ${length === 1 ? '1 test needs' : `${length} tests need`} ${need}`);
    const unrun = process.env['CI'] === 'true' ? inState('skipped').length : 0;
    if (unrun > 0) process.exitCode = 1;
    // No file ran: the shared servers could not be started, or no file has the given name.
    const missed = modules.length === 0 ? 1 : 0;
    const broken = modules.filter((module) => module.state() === 'failed' && module.errors().length > 0).length;
    print(
      `${inState('passed').length} passed, ${inState('failed').length + unrun + broken + missed + errors.length} failed`,
    );
  }
}

const print = (line: string): void => void process.stdout.write(`${line}\n`);

function needOf(test: TestCase): string {
  for (let group: TestCase | TestSuite | TestModule = test; 'parent' in group; group = group.parent) {
    const need = /\(needs ([^:)]+)(?:: ([^)]+))?\)/.exec(group.name);
    if (need) return `${need[1]}${need[2] ? ` (${need[2]})` : ''}`;
  }
  return 'what its name does not say: it was skipped';
}
