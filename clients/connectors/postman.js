// Writes a collection for Postman, made from the OpenAPI document: npm run postman
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const file = 'clients/dist/sales-data-api.postman_collection.json';
mkdirSync('clients/dist', { recursive: true });
const converter = ['--yes', '--package', 'openapi-to-postmanv2@6.3.3', 'openapi2postmanv2'];
const options = 'folderStrategy=Tags,requestParametersResolution=Example,exampleParametersResolution=Example';
execFileSync('npx', [...converter, '-s', 'test/contract/openapi.json', '-o', file, '-O', options], {
  stdio: 'inherit',
});

const { paths } = JSON.parse(readFileSync('test/contract/openapi.json', 'utf8'));

/** The examples of the document, instead of the random values that the converter makes up. */
function improve(item) {
  for (const one of item.item ?? []) improve(one);
  if (!item.request) return;
  item.response = [];
  item.request.header = item.request.header.filter(({ key }) => !/^(?:idempotency-key|if-match)$/i.test(key));
  const path = `/${item.request.url.path.join('/').replaceAll(/:(\w+)/g, '{$1}')}`;
  const { requestBody } = paths[path][item.request.method.toLowerCase()];
  const example = requestBody?.content['application/json']?.example;
  if (example) item.request.body.raw = JSON.stringify(example, null, 2);
}

const collection = JSON.parse(readFileSync(file, 'utf8'));
improve(collection);
collection.variable = [
  { key: 'baseUrl', value: 'http://127.0.0.1:3000' },
  { key: 'apiKey', value: 'X-API-Key sda_…' },
];
writeFileSync(file, JSON.stringify(collection));
