import underPressure from '@fastify/under-pressure';
import fp from 'fastify-plugin';
import { unavailable } from '../errors.ts';

/**
 * A stall of the event loop is overload. Then those customers are told to come back who have other requests in hand: they
 * make the load, and whoever sends one call now and then does not pay for it.
 */
export default fp(
  async (app) => {
    await app.register(underPressure, {
      maxEventLoopDelay: app.config.OVERLOAD_MS,
      sampleInterval: 250, // the default of 1 s misses a stall
      pressureHandler: ({ requester }, _reply, _type, delay) => {
        if (delay === Infinity) return; // nothing was measured: the process itself was not given a processor
        if (app.inHand.heldBy(requester.customerId) > 1) throw unavailable('The service is overloaded');
      },
    });
  },
  // After `auth`, which finds out whose request it is.
  { name: 'overload', dependencies: ['auth', 'requester'] },
);
