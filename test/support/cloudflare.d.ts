/// <reference types="@cloudflare/vitest-pool-workers/types" />

declare namespace Cloudflare {
  interface Env {
    /** A second database, for what stands in for a lagging replica. */
    REPLICA: D1Database;
    /** Another database of the deployment: `DB` where a file's applications live in `DB_1`, and the other way round. */
    SPARE: D1Database;
    /** drizzle/*.sql, read by vitest.config.ts. */
    TEST_MIGRATIONS: import("cloudflare:test").D1Migration[];
    /** Of random histories; empty: one that differs from run to run. */
    PROOF_SEED: string;
    /** How many operations `npm run soak` asks for; empty in `npm test`. */
    SOAK_OPERATIONS: string;
  }
}
