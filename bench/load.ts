import autocannon from 'autocannon';

// A process of its own, so that making the load takes nothing from the server's event loop.
const options = JSON.parse(process.argv[2]!) as autocannon.Options;
const result = await autocannon(options);
const failed = result.non2xx + result.errors + result.timeouts;
process.stdout.write(
  JSON.stringify({
    requests: result['2xx'],
    rate: result['2xx'] / result.duration,
    p50: result.latency.p50,
    p99: result.latency.p99,
    failed,
  }),
);
