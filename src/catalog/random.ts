/** Random numbers from a seed: the same seed gives the same ones everywhere. */
export interface Random {
  /** From 0 up to, not including, 1. */
  next(): number;
  /** A whole number from 0 up to, not including, `below`. */
  below(below: number): number;
  /** One of them, each as likely. */
  pick<T>(among: readonly T[]): T;
  /** One of them, the n-th about n times rarer than the first: as names, titles and cities are (Zipf's law). */
  pickZipf<T>(among: readonly T[]): T;
  /** The same for a rank from 0 up to, not including, `below`. */
  zipf(below: number): number;
}

/** Chris Doty-Humphrey's sfc32, from PractRand: small, fast, and good enough for made-up people. */
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
  // The inverse of the distribution's own function, which for Zipf's exponent 1 is a power of the number of ranks.
  const zipf = (limit: number): number => Math.floor((limit + 1) ** next()) - 1;
  return {
    next,
    below,
    zipf,
    pick: (among) => among[below(among.length)]!,
    pickZipf: (among) => among[zipf(among.length)]!,
  };
}
