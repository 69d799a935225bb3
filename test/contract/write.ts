import { writeFile } from 'node:fs/promises';
import { contractFiles } from './committed.ts';

// `npm run contract` runs this script: it rewrites the committed contract files after an intended change of the
// contract.
for (const [path, text] of Object.entries(await contractFiles())) await writeFile(path, text);
