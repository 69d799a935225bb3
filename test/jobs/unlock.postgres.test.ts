import { describe } from 'vitest';
import { startApp } from '../setup/app.ts';
import { unlocks } from './unlocking.ts';

const app = await startApp();

describe('unlocking from the PostgreSQL catalog', () => {
  unlocks(app);
});
