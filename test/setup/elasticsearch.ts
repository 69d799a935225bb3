import { randomUUID } from 'node:crypto';
import { inject } from 'vitest';

const given = inject('elasticsearch');

/** True if there is no Elasticsearch; for `describe.skipIf`. */
export const noElasticsearch = given.address === null;
/** True if no separate Elasticsearch nodes can be started; for `describe.skipIf`. */
export const noNodes = !given.nodes;
/** Suffix for the name of a test group that needs Elasticsearch; empty if it is available. */
export const need = noElasticsearch ? `(needs Elasticsearch: ${given.remedies.server})` : '';
/**
 * Suffix for the name of a test group that needs nodes of its own; empty if they are available. Without any
 * Elasticsearch it is the same as `need`, so that the need is reported once.
 */
export const needNodes = need === '' && noNodes ? `(needs Elasticsearch of its own: ${given.remedies.nodes})` : need;

/** Returns the environment variables for a new catalog on the shared Elasticsearch. */
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

/** Deletes a catalog of `ownCatalog`, index by index, because clusters reject wildcards here. */
export async function dropCatalog({
  ELASTICSEARCH_URL: url,
  ELASTICSEARCH_INDEX: name,
}: Record<string, string>): Promise<void> {
  const indices = (await (await fetch(`${url}/${name}*`)).json()) as object;
  await Promise.all(Object.keys(indices).map((index) => fetch(`${url}/${index}`, { method: 'DELETE' })));
}
