import { writeFile } from 'node:fs/promises';
import { contractFiles } from './committed.ts';

// `npm run contract`: after a change of the contract that was meant, its committed pictures are written anew.
for (const [path, text] of Object.entries(await contractFiles())) await writeFile(path, text);
