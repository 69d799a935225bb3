import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import packageJson from '../../package.json' with { type: 'json' };
import { contractFiles } from './committed.ts';
import { shapeOf } from './shape.ts';

// `npm run contract` runs this script: it rewrites the committed contract files after an intended change of the
// contract. With `--release` it also keeps what the release of this version promises.
for (const [path, text] of Object.entries(await contractFiles())) await writeFile(path, text);
if (process.argv.includes('--release')) {
  const document = JSON.parse(await readFile(join(import.meta.dirname, 'openapi.json'), 'utf8'));
  await mkdir(join(import.meta.dirname, 'released'), { recursive: true });
  await writeFile(
    join(import.meta.dirname, 'released', `${packageJson.version}.txt`),
    `${shapeOf(document).join('\n')}\n`,
  );
}
