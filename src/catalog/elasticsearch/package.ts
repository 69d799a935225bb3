import { createRequire } from 'node:module';
import type * as Package from '@elastic/elasticsearch';

const load = createRequire(import.meta.url);

/** The client's package. It is loaded at the first use, because its 240 modules take a third of the start of a command. */
export const elasticsearch = (): typeof Package => load('@elastic/elasticsearch') as typeof Package;
