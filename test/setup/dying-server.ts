import { buildApp } from '../../src/app.ts';
import { openCatalog } from '../../src/catalog/open.ts';
import { readConfig } from '../../src/process/config.ts';
import { isDistributed } from '../../src/database/citus.ts';
import { openDatabase } from '../../src/database/db.ts';

// The real app, with one change: if a request asks for it, the process dies after its transaction has committed and
// before any byte of the response is sent.
const config = readConfig();
const probe = openDatabase(config, config.DATABASE_URL!);
const distributed = await probe.lookup(isDistributed);
await probe.close();
const db = openDatabase(config, config.DATABASE_URL!, { distributed });
const app = buildApp({ config, db, catalog: openCatalog(config, db) });
app.addHook('onSend', async (request) => {
  if (request.headers['x-die-before-answer']) process.kill(process.pid, 'SIGKILL');
});
const url = await app.listen({ host: config.HOST, port: config.PORT });
process.stdout.write(`${JSON.stringify({ url })}\n`);
