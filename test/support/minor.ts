import type { Minor } from "../../src/db/schema.ts";

/** An amount in minor units from a test's number. Only TypeScript knows the type's brand, so a literal needs this function. */
export const minor = (amount: number): Minor => amount as Minor;

/** A list of `count` elements, each made from its index. */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
