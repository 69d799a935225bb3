/** How long an answer about the name server is shared (ms). */
const everyMs = 60_000;

/**
 * Returns a function that says whether the name server is to be believed if it says that a domain does not exist. It
 * is, if it knows a mail host of one of the canaries: domains that certainly have one. Without canaries it always is.
 * The canaries are looked up at most once a minute, however often the function is called.
 * @param hasMailHost asks the name server, never a cache
 */
export function openCanary(
  canaries: readonly string[],
  hasMailHost: (domain: string) => Promise<boolean>,
): () => Promise<boolean> {
  let asked: { at: number; answer: Promise<boolean> } | undefined;
  return () => {
    if (canaries.length === 0) return Promise.resolve(true);
    if (!asked || performance.now() - asked.at >= everyMs)
      asked = {
        at: performance.now(),
        answer: Promise.all(canaries.map(hasMailHost)).then((found) => found.includes(true)),
      };
    return asked.answer;
  };
}
