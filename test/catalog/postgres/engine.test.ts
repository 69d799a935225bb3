import { describe } from 'vitest';
import { startApp } from '../../setup/app.ts';
import { conforms } from '../conformance.ts';

const services = await startApp();

describe('the catalog on Postgres', () => {
  conforms(services);
});
