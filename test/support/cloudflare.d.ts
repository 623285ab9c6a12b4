/// <reference types="@cloudflare/vitest-pool-workers/types" />

declare namespace Cloudflare {
  interface Env {
    /** A second database, which plays a lagging replica. */
    REPLICA: D1Database;
    /** Another database of the deployment: `DB` where a file's applications live in `DB_1`, and the other way round. */
    SPARE: D1Database;
    /** A database whose triggers are dropped, so that flaws can be planted. */
    FLAWED: D1Database;
    /** A database for a million users, so that no other test meets them. */
    CROWDED: D1Database;
    /** drizzle/*.sql, read by vitest.config.ts. */
    TEST_MIGRATIONS: import("cloudflare:test").D1Migration[];
    /** The seed of random histories. If empty, each run has another one. */
    PROOF_SEED: string;
    /** The number of operations of `npm run soak`. Empty in `npm test`. */
    SOAK_OPERATIONS: string;
    SWAP_DATABASES: string;
  }
}
