import type { Steps } from "../../src/db/schema.ts";

/** An amount in steps from a test's number. Only TypeScript knows the type's brand, so a literal needs this function. */
export const steps = (amount: number): Steps => amount as Steps;
