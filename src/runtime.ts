import type { Db } from "./db/sql.ts";
import { randomId } from "./lib/ids.ts";
import type { Settings } from "./settings.ts";

export type Mode = "live" | "test";

/** One application in one mode: the tenant that a request works in. */
export interface Environment {
  readonly id: number;
  readonly appId: string;
  readonly mode: Mode;
  /** The index of its database. The index and `id` together identify an environment. */
  readonly database: number;
}

export type Caller =
  /** The holder of a key. */
  | { readonly kind: "secret" | "publishable" | "relay"; readonly keyId: string }
  | AdminCaller
  /** The holder of a download link. */
  | { readonly kind: "link" }
  | { readonly kind: "cron" }
  /** The sender that signs with the signing secret of an environment's Stripe events. */
  | { readonly kind: "stripe" };

/**
 * The administrator. `by` is the name in the audit log: `api`, `ak:` and the id of an administration key, or the person who is
 * signed in to the dashboard.
 */
export interface AdminCaller {
  readonly kind: "admin";
  readonly by: string;
}

/** An end-user, and the payers of whom they are a member (ME5). */
export interface EndUser {
  readonly userId: string;
  readonly payers: readonly string[];
}

/** The user whom a request names. */
export interface RequestedUser {
  readonly param: string;
  readonly userId: string;
  /** Whether a member of that user may ask, too (ME5). */
  readonly isForMembers: boolean;
  /** The member whom the request names. */
  readonly memberId: string | undefined;
}

/** The rights of an administration key. */
export type Scope = "read" | "people" | "write" | "grants" | "settings" | "access";

/**
 * A scope that depends on an argument or a field of the row: `needs` if the field `by` equals `is`, or has any value when `is` is
 * absent. Otherwise `otherwise`.
 */
export interface ScopeChoice {
  readonly by: "kind" | "userId" | "groupBy";
  readonly is?: string | readonly string[];
  readonly needs: Scope;
  readonly otherwise: Scope;
}

/**
 * Where to find the mode of a route: in the argument `mode`, in the row of the id in its path, or always `test`. `none`: the
 * route has no mode, and needs a key for both modes. `own`: the route accepts a key for any mode, and returns only rows of
 * that mode.
 */
export type ModeOf = "argument" | "row" | "test" | "none" | "own";

export interface RouteRequirement {
  readonly scope: Scope | ScopeChoice;
  readonly mode: ModeOf;
  /** Whether the key must be for all applications. */
  readonly needsAllApps?: boolean;
}

/** The rights of an administration key, and what the route that it called requires. */
export interface AdminRights {
  readonly adminKeyId: string;
  readonly scopes: readonly Scope[];
  /** Null: all applications. */
  readonly apps: readonly string[] | null;
  /** Null: both modes. */
  readonly modes: readonly Mode[] | null;
  /** Null: the route takes only the admin token. */
  readonly requirement: RouteRequirement | null;
}

/** The source of time and random ids, so that a test can control both. */
export interface Runtime {
  /** Identifies this isolate: values remembered between requests are stored under it. */
  readonly isolate: object;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Returns `prefix` and 22 random characters of base62, more than 128 bits: `newId("crb_")`. */
  readonly newId: (prefix: string) => string;
  /** The messages to deliver for the first time after the response is sent. Absent where the cron delivers them. */
  readonly outbox?: Outbox;
  /** Adds a sentence to the response's warnings (http/factory.ts). Absent where there is no response. */
  readonly warn?: (sentence: string) => void;
}

/** Returns a runtime with the real time and random ids. Each has a memory of its own. */
export const createRuntime = (): Runtime => ({ isolate: {}, now: () => Date.now(), newId: randomId });

/** The written messages, each with the index of its database, and with an endpoint if only that one receives it. */
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
  /** Returns the size of its file in bytes. */
  readonly readSize: () => Promise<number>;
}

/** The context of a verb without a tenant, such as the cron, a link, or a read for the administrator. */
export interface SystemCtx extends DatabaseCtx {
  /** All databases of the deployment; `db` is one of them. */
  readonly databases: readonly OpenDatabase[];
  /** Set where an administration key calls. Everyone else may do everything. */
  readonly rights?: AdminRights;
}

/** How much more a part of the cron may do in this run. */
export interface Allowance {
  /**
   * Returns whether this number of further queries is allowed. If not, the part ends, and is called again when others leave queries,
   * otherwise by the next run. So a part calls this only when it has more to do.
   */
  readonly has: (queries: number) => boolean;
  /** After this moment the part starts nothing that waits for anything except the database. */
  readonly untilMs: number;
}

/** The context of a part of the cron: one database at a time, which is `db`. */
export interface CronCtx extends SystemCtx {
  readonly database: number;
  readonly allowance: Allowance;
}

/** A part of the cron's work. All parts share the queries of a run (cron.ts). */
export interface CronPart {
  /** The code of its failure in the log. */
  readonly code: string;
  /** Its share of a run's queries, relative to the other parts, when all have work. */
  readonly weight: number;
  /** How many queries its smallest step usually takes. It asks its allowance for no more at a time. */
  readonly queriesOfStep: number;
  /** Does the work, and returns errors. Each error stops only its own piece of work. */
  readonly work: (ctx: CronCtx) => Promise<readonly unknown[]>;
}

/** The context of a verb of administration. */
export interface AdminCtx extends SystemCtx {
  readonly caller: AdminCaller;
  /** The `seq` of the audit entry that must be the application's latest when the call changes something. */
  readonly ifLatestAuditEntry?: number | undefined;
}

/** The context of every verb with a tenant. Its `now` is the environment's time. */
export interface TenantCtx extends DatabaseCtx {
  readonly environment: Environment;
  readonly caller: Caller;
  /** The environment's test clock, as text (db/settings-snapshot.ts); null for none. A write aborts if the clock has changed since. */
  readonly clock: string | null;
  /** The real time, for values that ignore a test clock (D3): links, signatures, attempts, retention. */
  readonly realNow: () => number;
}
