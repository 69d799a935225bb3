import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';

const given = inject('elasticsearch');

/** For `describe.skipIf`: there is no Elasticsearch. */
export const noElasticsearch = given.address === null;
/** The same: there are no nodes that can be hurt. */
export const noNodes = !given.nodes;
/** What to end the name of such a group of tests with: nothing where they can run. */
export const need = noElasticsearch ? `(needs Elasticsearch: ${given.remedies.server})` : '';
/** The same for nodes. Where there is no server either it is the same need, which is told once. */
export const needNodes = need === '' && noNodes ? `(needs Elasticsearch of its own: ${given.remedies.nodes})` : need;

/** The environment of a catalog of one's own there. */
export async function ownCatalog(more: Record<string, string> = {}): Promise<Record<string, string>> {
  const answer = await fetch(given.address!);
  if (!answer.ok) throw new Error(await answer.text());
  return {
    ELASTICSEARCH_URL: await answer.text(),
    ELASTICSEARCH_INDEX: `test-${randomUUID()}`,
    ELASTICSEARCH_REPLICAS: '0',
    ...more,
  };
}

/** Deletes such a catalog, index by index: clusters refuse wildcards here. */
export async function dropCatalog({
  ELASTICSEARCH_URL: url,
  ELASTICSEARCH_INDEX: name,
}: Record<string, string>): Promise<void> {
  const indices = (await (await fetch(`${url}/${name}*`)).json()) as object;
  await Promise.all(Object.keys(indices).map((index) => fetch(`${url}/${index}`, { method: 'DELETE' })));
}
