import type { Db } from "./db/client.ts";
import type { Settings } from "./settings.ts";

export type Mode = "live" | "test";

/** One application in one mode: the tenant that a request works in. */
export interface Environment {
  readonly id: number;
  readonly appId: string;
  readonly mode: Mode;
}

export type Caller =
  | { readonly kind: "secret"; readonly keyId: string }
  /** `endUserId` is what the end-user token proved; null where none was asked for. */
  | { readonly kind: "publishable"; readonly keyId: string; readonly endUserId: string | null }
  | AdminCaller
  /** Whoever holds a download link. */
  | { readonly kind: "link" }
  | { readonly kind: "cron" };

/** The administrator. `by` is the name that the audit gives: `api`, or whoever is signed in to the dashboard. */
export interface AdminCaller {
  readonly kind: "admin";
  readonly by: string;
}

/** Time and chance come through here, so that a test can set both. */
export interface World {
  /** Stands for this isolate: what it remembers between requests hangs on it. */
  readonly isolate: object;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** 22 random characters of base62, more than 128 bits, behind `prefix`: `newId("crb_")`. */
  readonly newId: (prefix: string) => string;
}

/** What a verb without a tenant receives: the cron, a link, what only reads for the administrator. */
export interface RootCtx extends World {
  readonly db: Db;
  readonly settings: Settings;
}

/** What a verb of administration receives. */
export interface AdminCtx extends RootCtx {
  readonly caller: AdminCaller;
}

/** What every verb receives. */
export interface Ctx extends RootCtx {
  readonly environment: Environment;
  readonly caller: Caller;
}
