const given = process.env['SEED'];

/**
 * Seed of all random choices of a test. It is fixed, so that no change is refused for what chance finds on another day.
 * `SEED=7` sets another one, `SEED=random` draws one, as `make model` and `make fuzz` do.
 */
export const seed = given === 'random' ? Date.now() % 1_000_000 : Number(given ?? 1);
