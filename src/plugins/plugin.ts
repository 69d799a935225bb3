import type { FastifyPluginAsync } from 'fastify';
import fp, { type PluginMetadata } from 'fastify-plugin';

/** Returns a Fastify plugin whose hooks and decorators hold for the whole app. */
export const plugin = <Options extends object = object>(
  metadata: PluginMetadata,
  register: FastifyPluginAsync<Options>,
): FastifyPluginAsync<Options> => fp(register, metadata);
