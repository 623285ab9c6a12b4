import { expect } from "vitest";
import { randomId } from "../../src/lib/ids.ts";
import { type Answer, Clock, makeApp, makeClient, makePack, type TestApp, type TestItem } from "./world.ts";

/** A user with credits of its own, and short ways to spend them with the application's secret key. */
export interface Spender {
  readonly app: TestApp;
  readonly clock: Clock;
  readonly userId: string;
  /** Ids of the balances, in the order of the items granted. */
  readonly balanceIds: readonly string[];
  readonly post: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  readonly get: (path: string) => Promise<Answer>;
  /** Records an event of this user: `chat.completed`, unless `body` says otherwise. */
  readonly spend: (eventId: string, body?: object) => Promise<Answer>;
  readonly reserve: (body: object) => Promise<Answer>;
  /** What each balance has left, in the order of the items granted, dead ones included. */
  readonly remaining: () => Promise<number[]>;
  /** The user's ledger, newest first. */
  readonly ledger: () => Promise<LedgerLine[]>;
}

interface LedgerLine {
  readonly balanceId: string;
  readonly delta: number;
  readonly reason: string;
  readonly eventId: string | null;
  readonly reservationId: string | null;
}

export async function makeSpender(items: readonly TestItem[], bindings: Partial<Env> = {}): Promise<Spender> {
  const clock = new Clock();
  const app = await makeApp();
  const call = makeClient(clock, bindings);
  const key = app.keys.sk_live;
  const userId = randomId("user_");
  const post: Spender["post"] = (path, body, headers = {}) =>
    call("POST", path, { key, headers, ...(body === undefined ? {} : { body }) });
  const get: Spender["get"] = (path) => call("GET", path, { key });
  let balanceIds: string[] = [];
  if (items.length > 0) {
    const packId = await makePack(app.appId, randomId("Pack "), items);
    const granted = await post("/api/v1/credits/grant", { userId, packId });
    expect(granted.status).toBe(200);
    balanceIds = granted.body.balances.map((balance: { balanceId: string }) => balance.balanceId);
  }
  return {
    app,
    clock,
    userId,
    balanceIds,
    post,
    get,
    spend: (eventId, body = {}) => post("/api/v1/usage/events", { eventId, userId, event: "chat.completed", ...body }),
    reserve: (body) => post("/api/v1/usage/reservations", { userId, event: "chat.completed", ...body }),
    remaining: async () => {
      const { body } = await get(`/api/v1/credits?userId=${userId}&includeExpired=true`);
      const left = new Map<string, number>(
        body.credits.map((credit: { balanceId: string; remaining: number }) => [credit.balanceId, credit.remaining]),
      );
      return balanceIds.map((id) => left.get(id) ?? Number.NaN);
    },
    ledger: async () => (await get(`/api/v1/credits/history?userId=${userId}&limit=500`)).body.entries,
  };
}
