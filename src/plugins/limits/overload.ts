import underPressure from '@fastify/under-pressure';
import fp from 'fastify-plugin';
import { unavailable } from '../../errors.ts';

/**
 * Fastify plugin that rejects requests with 503 while the process is overloaded (its event loop is delayed). Rejects
 * only requests of customers that have more than one running request, and no health checks.
 */
export default fp(
  async (app) => {
    await app.register(underPressure, {
      maxEventLoopDelay: app.config.OVERLOAD_MS,
      sampleInterval: 250, // the default of 1 s misses short stalls
      pressureHandler: ({ requester, routeOptions }, _reply, _type, delay) => {
        if (delay === Infinity) return; // nothing was measured: the process itself got no CPU time
        if (routeOptions.config.isProbe) return; // whoever overloads the service must not take it out of rotation
        if (app.inFlight.heldBy(requester.customerId) > 1) throw unavailable('The service is overloaded');
      },
    });
  },
  // After `auth`, which sets the request's customer.
  { name: 'overload', dependencies: ['auth', 'requester'] },
);
