/** The distances of `bench/far.ts`: the database on another continent, and a replica on the same one. */
export const DISTANCES = { primaryMs: 100, replicaMs: 10 } as const;
