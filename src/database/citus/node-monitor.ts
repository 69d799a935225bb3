import type { FastifyBaseLogger } from 'fastify';

/** A connection that sends test queries to one node of a distributed database. */
export interface Probe {
  send(): Promise<unknown>;
  close(): void;
}

interface NodeMonitorOptions {
  /** Name of the node in the log: host and port. */
  node: string;
  openProbe: () => Probe;
  /** Time without a response after which the node counts as down (ms). */
  silenceMs: number;
  /** Returns true if silence has another cause than the node: the coordinator, which passes the queries on, is silent. */
  isExcused?: () => boolean;
  onChange: (isUp: boolean) => void;
}

/** Time between a response and the next test query, and between two checks for silence (ms). */
const tickMs = 250;
/** Time without a response after which the probe opens a new connection (ms). */
const renewMs = 10_000;
/** A test query may wait this many times longer for its response while other queries get theirs. */
const probeSilences = 1.5;

/**
 * Checks all the time whether one node of a distributed database responds. A node is down if a test query fails because
 * of the node (no connection, or a time limit of the coordinator), if no query gets a response for `silenceMs`, or if a
 * test query gets none for `probeSilences` times as long. Silence does not count while `isExcused` returns true. The
 * node is up again as soon as a test query succeeds.
 */
export class NodeMonitor {
  readonly #options: NodeMonitorOptions;
  readonly #timer: NodeJS.Timeout;
  #probe: Probe;
  #log: FastifyBaseLogger | undefined;
  #isUp = true;
  #downSince = 0;
  #isWaiting = false;
  /** Ticks of the timer since the test query was sent or another query last got its response. */
  #silentTicks = 0;
  /** Ticks of the timer since the test query was sent. */
  #probeTicks = 0;

  constructor(options: NodeMonitorOptions) {
    this.#options = options;
    this.#probe = options.openProbe();
    this.#timer = setInterval(() => this.#tick(), tickMs).unref();
  }

  /** True if a test query has got no response for at least two ticks of the timer. */
  get isDoubtful(): boolean {
    return this.#isWaiting && this.#probeTicks >= 2;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  logTo(log: FastifyBaseLogger): void {
    this.#log = log;
  }

  /** Tells the monitor that another query got its response, so that a slow test query alone is no silence. */
  responded(): void {
    this.#silentTicks = 0;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#probe.close();
  }

  // Counts ticks instead of milliseconds: after the event loop was blocked, there is one tick, and then the response is
  // read.
  #tick(): void {
    if (!this.#isWaiting) return void this.#ask();
    this.#silentTicks += 1;
    this.#probeTicks += 1;
    const { silenceMs, isExcused } = this.#options;
    // Other queries may have needed only the coordinator. So their responses do not count for ever.
    const isSilent = this.#silentTicks * tickMs >= silenceMs || this.#probeTicks * tickMs >= probeSilences * silenceMs;
    if (isSilent && !isExcused?.()) this.#set(false, 'no response');
    if (this.#probeTicks * tickMs >= renewMs) this.#renew();
  }

  async #ask(): Promise<void> {
    this.#isWaiting = true;
    this.#silentTicks = this.#probeTicks = 0;
    const probe = this.#probe;
    try {
      await probe.send();
      this.#set(true);
    } catch (error) {
      if (isNodeFailure(error)) this.#set(false, (error as Error).message);
    } finally {
      if (probe === this.#probe) this.#isWaiting = false;
    }
  }

  /** Opens another connection: if the machine of the node is gone, the old one waits until the kernel gives up. */
  #renew(): void {
    this.#probe.close();
    this.#probe = this.#options.openProbe();
    this.#isWaiting = false;
  }

  #set(isUp: boolean, reason?: string): void {
    if (isUp === this.#isUp) return;
    this.#isUp = isUp;
    const { node } = this.#options;
    if (isUp) {
      const seconds = Math.round((performance.now() - this.#downSince) / 1000);
      this.#log?.info({ node, seconds }, 'a database node responds again');
    } else {
      this.#downSince = performance.now();
      this.#log?.error({ node, reason }, 'a database node does not respond');
    }
    this.#options.onChange(isUp);
  }
}

/**
 * Returns true if the coordinator could not use its connection to the node: SQLSTATE class 08, or its time limit.
 * Errors that the coordinator did not send, such as a lost connection to the coordinator itself, say nothing about the
 * node.
 */
function isNodeFailure(error: unknown): boolean {
  const { code, severity } = Object(error) as { code?: string; severity?: string };
  return severity !== undefined && /^(08...|57014)$/.test(code ?? '');
}
