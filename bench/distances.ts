/** How far away the database of `bench/far.ts` is: another continent, and a replica on one's own. */
export const DISTANCES = { primaryMs: 100, replicaMs: 10 } as const;
