import { env } from "cloudflare:workers";
import { ENTRY_KINDS } from "../../src/db/schema.ts";
import type { Mode } from "../../src/runtime.ts";
import { CREDITS } from "./paths.ts";
import { type Answer, type Client, Clock, makeApp, makeClient, type TestApp } from "./world.ts";

/** The test's own application, and the four operations on its credits with its secret key of one mode. */
export interface CreditsWorld {
  readonly clock: Clock;
  readonly app: TestApp;
  readonly call: Client;
  grant(body: unknown): Promise<Answer>;
  revoke(body: unknown): Promise<Answer>;
  list(query: Record<string, string> | string): Promise<Answer>;
  history(query: Record<string, string> | string): Promise<Answer>;
}

const queryText = (query: Record<string, string> | string) =>
  typeof query === "string" ? query : new URLSearchParams(query).toString();

export async function creditsWorld(mode: Mode = "live", bindings: Partial<Env> = {}): Promise<CreditsWorld> {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings);
  const key = app.keys[`sk_${mode}`];
  return {
    clock,
    app,
    call,
    grant: (body) => call("POST", `${CREDITS}/grant`, { key, body }),
    revoke: (body) => call("POST", `${CREDITS}/revoke`, { key, body }),
    list: (query) => call("GET", `${CREDITS}?${queryText(query)}`, { key }),
    history: (query) => call("GET", `${CREDITS}/history?${queryText(query)}`, { key }),
  };
}

export interface StoredBalance {
  readonly id: string;
  readonly environment_id: number;
  readonly remaining_minor: number;
  readonly source: string;
  readonly external_ref: string | null;
  readonly notes: string | null;
  readonly grant_seq: number;
}

/** The stored balances of an application, in the order of issue. */
export async function storedBalances(app: TestApp, userId: string): Promise<StoredBalance[]> {
  const { results } = await env.DB.prepare(
    `SELECT a.environment_id, b.* FROM accounts AS a CROSS JOIN credit_balances AS b ON b.account_id = a.id
     WHERE a.environment_id IN (?, ?) AND a.user_id = ? ORDER BY a.environment_id, b.grant_seq`,
  )
    .bind(app.environments.live.id, app.environments.test.id, userId)
    .all<StoredBalance>();
  return results;
}

/** The stored ledger of one user of an application, in order, in minor units. */
export async function storedLedger(app: TestApp, userId: string): Promise<[string, number, string, string | null][]> {
  const rows = await env.DB.prepare(
    `SELECT b.id, l.delta_minor, l.reason, l.note FROM accounts AS a CROSS JOIN credit_ledger AS l ON l.account_id = a.id
     CROSS JOIN credit_balances AS b ON b.account_id = a.id AND b.grant_seq = l.grant_seq
     WHERE a.environment_id IN (?, ?) AND a.user_id = ? ORDER BY a.environment_id, l.seq`,
  )
    .bind(app.environments.live.id, app.environments.test.id, userId)
    .raw<[string, number, string, string | null]>();
  return rows;
}

/** Consumes from a balance by a ledger entry, as another usage event would. */
export async function consume(balanceId: string, minor: number): Promise<void> {
  await env.DB.prepare(
    `INSERT INTO credit_ledger (account_id, seq, grant_seq, delta_minor, balance_after_minor, previous_seq, kind, written_by, event_seq,
       occurred_at_ms)
     SELECT b.account_id, 1 + (SELECT max(seq) FROM credit_ledger WHERE account_id = b.account_id), b.grant_seq,
       -CAST(?2 AS INTEGER), b.remaining_minor - CAST(?2 AS INTEGER), b.last_seq, ${ENTRY_KINDS.usage}, 0, 1, 0
     FROM credit_balances AS b WHERE b.id = ?1`,
  )
    .bind(balanceId, minor)
    .run();
}
