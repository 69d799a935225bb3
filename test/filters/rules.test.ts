import { expect, test } from 'vitest';
import { TimeSlice } from '../../src/process/event-loop.ts';
import { contactSource } from '../../src/filters/columns.ts';
import { rulesFilter, rulesFilterInPieces } from '../../src/filters/rules.ts';
import type { Rule } from '../../src/schemas/lists.ts';

class EndlessStretch extends TimeSlice {
  pauses = 0;
  override get isOver(): boolean {
    return true;
  }
  override async pause(): Promise<void> {
    this.pauses += 1;
  }
}

test('rules read in pieces mean the same, and leave room for a pause after each', async () => {
  const rules = Array.from({ length: 50 }, (_, i): Rule => {
    const logic_operator = i % 3 === 0 && i > 0 ? 'OR' : 'AND';
    return { field: 'job_title', operator: 'in', value: `Clerk ${i}, Baker`, logic_operator };
  });
  const stretch = new EndlessStretch();
  const filter = await rulesFilterInPieces(contactSource.fields, rules, stretch);
  expect(filter).toEqual(rulesFilter(contactSource.fields, rules));
  expect(stretch.pauses).toBe(rules.length);
});
