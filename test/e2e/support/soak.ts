/** `npm run soak` sets the number of operations. 0 in the suite, whose runs are short. */
export const SOAK_OPERATIONS = Number(process.env.SOAK_OPERATIONS) || 0;

/** The seed of this run's random requests. `PROOF_SEED` repeats an earlier run. */
export const RANDOM_SEED = Number(process.env.PROOF_SEED) || (Date.now() % 1_000_000) + 1;
