import type { Steps } from "../../src/db/schema.ts";

/** An amount in steps from a test's number. Only TypeScript knows the type's brand, so a literal needs this function. */
export const steps = (amount: number): Steps => amount as Steps;

/** A list of `count` elements, each made from its index. */
export const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index));
