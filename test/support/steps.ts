import type { Steps } from "../../src/db/schema.ts";

/** An amount in steps, as a test writes it: the brand is TypeScript's alone, and a test's literal has no other way to it. */
export const steps = (amount: number): Steps => amount as Steps;
