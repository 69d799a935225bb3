/** Names each column by its header; a further one with the same header is e.g. `Phone (2)`. No name comes twice. */
export function columnNames(headers: readonly string[]): string[] {
  const taken = new Set(headers);
  const counts = new Map<string, number>();
  return headers.map((header) => {
    let number = (counts.get(header) ?? 0) + 1;
    while (number > 1 && taken.has(`${header} (${number})`)) number += 1;
    counts.set(header, number);
    const name = number === 1 ? header : `${header} (${number})`;
    taken.add(name);
    return name;
  });
}

/** Returns for each header the index of the first column that has it. There can be 10,000 columns. */
export const firstColumns = (headers: readonly string[]): ReadonlyMap<string, number> =>
  new Map(headers.map((header, i) => [header, i] as const).toReversed());
