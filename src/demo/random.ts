/** The same seed gives the same numbers on every machine. */
export interface Random {
  /** Returns a number from 0 (included) to 1 (excluded). */
  next(): number;
  /** Returns a whole number from 0 (included) to `below` (excluded). */
  below(below: number): number;
  pick<T>(among: readonly T[]): T;
  /** Returns an item by Zipf's law: the n-th is about n times rarer than the first, like real names and cities. */
  pickZipf<T>(among: readonly T[]): T;
  /** Returns a whole number from 0 (included) to `below` (excluded) by Zipf's law: 0 is most likely. */
  zipf(below: number): number;
}

/** Creates a generator by sfc32 (from PractRand, by Chris Doty-Humphrey), which is small and fast. */
export function seeded(seed: number): Random {
  let [a, b, c, d] = [0x9e3779b9, 0x243f6a88, seed | 0, 1];
  const next = (): number => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return (t >>> 0) / 0x1_0000_0000;
  };
  for (let i = 0; i < 16; i += 1) next();
  const below = (limit: number): number => Math.floor(next() * limit);
  // Inverse transform sampling. For Zipf's exponent 1 the inverse of the distribution function is a power of the limit.
  const zipf = (limit: number): number => Math.floor((limit + 1) ** next()) - 1;
  return {
    next,
    below,
    zipf,
    pick: (among) => among[below(among.length)]!,
    pickZipf: (among) => among[zipf(among.length)]!,
  };
}
