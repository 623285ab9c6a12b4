/// <reference types="@cloudflare/vitest-pool-workers/types" />

declare namespace Cloudflare {
  interface Env {
    /** A second database, which acts as a lagging replica. */
    REPLICA: D1Database;
    /** The deployment's other database: `DB` if the file's applications are in `DB_1`, and the reverse. */
    SPARE: D1Database;
    /** A database whose triggers are dropped, so that errors can be planted. */
    FLAWED: D1Database;
    /** A database for a million users, and for rows that tests attack, so that no other test reads them. */
    CROWDED: D1Database;
    /** drizzle/*.sql, read by vitest.config.ts. */
    TEST_MIGRATIONS: import("cloudflare:test").D1Migration[];
    /** The seed of random histories. If it is empty, each run has another seed. */
    PROOF_SEED: string;
    /** The number of operations of `npm run soak`. It is empty in `npm test`. */
    SOAK_OPERATIONS: string;
    SWAP_DATABASES: string;
  }
}

/** A text file that a test inside workerd imports. */
declare module "*?raw" {
  const text: string;
  export default text;
}
