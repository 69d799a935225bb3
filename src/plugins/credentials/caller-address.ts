import fp from 'fastify-plugin';
import { callerAddress, parseRanges } from '../../network/ip-addresses.ts';

export default fp(
  async (app) => {
    const { ranges } = parseRanges(app.config.TRUST_PROXY ?? '');
    app.decorateRequest('address', '');
    app.addHook('onRequest', (request, _reply, done) => {
      const forwarded = request.headers['x-forwarded-for'] as string | undefined; // Node joins repeated headers with commas
      request.address = callerAddress(request.socket.remoteAddress, forwarded, ranges);
      done();
    });
  },
  { name: 'caller-address', dependencies: ['services'] },
);
