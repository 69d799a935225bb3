import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { startApp } from '../setup/app.ts';
import { requestsTo, testRequests } from './requests.ts';

const app = await startApp();
const { privacy } = requestsTo(app);

describe('requests of people, catalog on Postgres', () => {
  testRequests(app);
});

test('without exactly one identifier, or with one that identifies nobody, a command is used wrongly', async () => {
  for (const words of [
    ['find'],
    ['erase', '--case', 'x'],
    ['find', '--id', randomUUID(), '--email', 'a@x.example'],
    ['find', '--id', 'x'],
    ['erase', '--email', 'a@x.example'],
    ['erase', '--profile', 'https://www.linkedin.com/in/', '--case', 'x'],
    ['lift'],
  ])
    expect([words, (await privacy(...words)).code]).toEqual([words, 2]);
});
