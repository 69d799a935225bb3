import { parseConfig } from '../../src/process/config.ts';
import { openDatabase } from '../../src/database/db.ts';
import { indexRecords } from '../../src/jobs/workers.ts';

// Adds missing search terms, as the worker's sweep does, in a process that a test can kill.
const config = parseConfig(process.env);
const db = openDatabase(config, config.DATABASE_URL!);
process.stdout.write('{"url":""}\n');
await indexRecords({ db, stopping: new AbortController().signal }, 60_000);
await db.close();
