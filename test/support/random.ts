/** Random choices that can be repeated: the same seed gives the same choices (mulberry32). */
export function createRandom(seed: number) {
  let state = seed >>> 0;
  /** A number from 0 up to, but not including, 1. */
  const fraction = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  /** A whole number between two numbers, both included. */
  const integer = (min: number, max: number): number => min + Math.floor(fraction() * (max - min + 1));
  const chance = (probability: number): boolean => fraction() < probability;
  const pick = <T>(list: readonly [T, ...T[]] | readonly T[]): T => list[integer(0, list.length - 1)] as T;
  /** One of the names, with a probability in proportion to its weight. */
  const weighted = <Name extends string>(weights: Readonly<Record<Name, number>>): Name => {
    const names = Object.keys(weights) as Name[];
    return pick(names.flatMap((name) => Array.from({ length: weights[name] }, () => name)));
  };
  const id = (prefix: string): string =>
    `${prefix}${Array.from({ length: 22 }, () => integer(0, 35).toString(36)).join("")}`;
  return { fraction, integer, chance, pick, weighted, id };
}

export type Random = ReturnType<typeof createRandom>;
