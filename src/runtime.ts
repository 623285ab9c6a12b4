import type { Db } from "./db/sql.ts";
import type { Settings } from "./settings.ts";

export type Mode = "live" | "test";

/** One application in one mode: the tenant that a request works in. */
export interface Environment {
  readonly id: number;
  readonly appId: string;
  readonly mode: Mode;
  /** The index of the database that it lives in, by which and by `id` it is told from every other. */
  readonly database: number;
}

export type Caller =
  /** Whoever holds a key. */
  | { readonly kind: "secret" | "publishable" | "relay"; readonly keyId: string }
  | AdminCaller
  /** Whoever holds a download link. */
  | { readonly kind: "link" }
  | { readonly kind: "cron" }
  /** Whoever signs with the signing secret of an environment's Stripe events. */
  | { readonly kind: "stripe" };

/** The administrator. `by` is the name that the audit gives: `api`, or whoever is signed in to the dashboard. */
export interface AdminCaller {
  readonly kind: "admin";
  readonly by: string;
}

/** Time and chance come through here, so that a test can set both. */
export interface Runtime {
  /** Stands for this isolate: what it remembers between requests hangs on it. */
  readonly isolate: object;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** 22 random characters of base62, more than 128 bits, behind `prefix`: `newId("crb_")`. */
  readonly newId: (prefix: string) => string;
  /** Messages whose first attempts are made behind the answer. Absent where the cron makes them. */
  readonly outbox?: Outbox;
  /** Adds a sentence to the answer's warnings (http/warnings.ts). Absent where nobody is answered. */
  readonly warn?: (sentence: string) => void;
}

/** Written messages, each with the index of its database, and with an endpoint where only that one gets it. */
export type Outbox = { readonly database: number; readonly messageId: string; readonly endpointId?: string }[];

interface DatabaseCtx extends Runtime {
  readonly db: Db;
  readonly settings: Settings;
}

/** A database of the deployment, open for one request. */
export interface OpenDatabase {
  readonly index: number;
  readonly name: string;
  readonly db: Db;
}

/** What a verb without a tenant receives: the cron, a link, what only reads for the administrator. */
export interface SystemCtx extends DatabaseCtx {
  /** All of the deployment's; `db` is one of them. */
  readonly databases: readonly OpenDatabase[];
}

/** How much more a part of the cron's work may do. */
export interface Allowance {
  /**
   * Whether so many queries may follow. When not, the part ends. It is called again when others leave some, else by the next
   * run: so it asks only when there is more to do.
   */
  readonly has: (queries: number) => boolean;
  /** After this it begins nothing that waits for others than the database. */
  readonly untilMs: number;
}

/** What a part of the cron's work receives: one database at a time, which is `db`. */
export interface CronCtx extends SystemCtx {
  readonly database: number;
  readonly allowance: Allowance;
}

/** A part of the cron's work. All parts share the queries of a run (cron.ts). */
export interface CronPart {
  /** What the log calls its failure. */
  readonly code: string;
  /** Its share of a run's queries, beside those of the other parts, when all have work. */
  readonly weight: number;
  /** What its smallest step takes, as a rule. It asks its allowance for no more at a time. */
  readonly queriesOfStep: number;
  /** Answers errors, which take only their own work down. */
  readonly work: (ctx: CronCtx) => Promise<readonly unknown[]>;
}

/** What a verb of administration receives. */
export interface AdminCtx extends SystemCtx {
  readonly caller: AdminCaller;
}

/** What every verb receives. Its `now` is the environment's time. */
export interface TenantCtx extends DatabaseCtx {
  readonly environment: Environment;
  readonly caller: Caller;
  /** The environment's test clock, as text (db/clock.ts); null for none. A write aborts where it is another by then. */
  readonly clock: string | null;
  /** For what keeps real time in spite of a test clock (D3): links, signatures, attempts, retention. */
  readonly realNow: () => number;
}
