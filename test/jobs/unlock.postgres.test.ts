import { describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { unlocks } from './unlocking.ts';

const t = await startApp();

describe('unlocking from the PostgreSQL catalog', () => {
  unlocks(t);
});
