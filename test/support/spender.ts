import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { holdsPart } from "../../src/books/usage/expire.ts";
import { scheduled } from "../../src/cron.ts";
import { randomId } from "../../src/lib/ids.ts";
import { RESERVATIONS } from "./paths.ts";
import {
  type Answer,
  bound,
  type Client,
  Clock,
  makeApp,
  makeClient,
  makePack,
  type TestApp,
  type TestItem,
} from "./world.ts";

/** 10 cents for all events. */
export const wallet = { amountMinor: 10_000_000, unit: "cents" } as const;
/** 400 tokens for `chat.*`. */
export const chatTokens = { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }] } as const;

/** The field `quantities` of a request for this many cents. */
export const cents = (amount: number) => ({ quantities: { cents: amount } });
/** The same without the default of one `count`. */
export const centsOnly = (amount: number) => ({ quantities: { count: 0, cents: amount } });

/** A user with credits, and functions that spend them with the application's secret key. */
export interface Spender {
  readonly app: TestApp;
  readonly clock: Clock;
  readonly userId: string;
  /** The ids of the balances, in the order of the granted items. */
  readonly balanceIds: readonly string[];
  readonly post: (path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>;
  readonly get: (path: string) => Promise<Answer>;
  /** Records an event of this user: `chat.completed`, unless `body` has another one. */
  readonly spend: (eventId: string, body?: object) => Promise<Answer>;
  readonly reserve: (body: object) => Promise<Answer>;
  /** The remaining amount of each balance, in the order of the granted items. It includes balances that cannot pay. */
  readonly remaining: () => Promise<number[]>;
  /** The same user, whose requests reach an isolate that remembers nothing yet. */
  readonly inNewIsolate: () => Spender;
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
  const app = await makeApp();
  const user = { app, clock: new Clock(), userId: randomId("user_"), balanceIds: [] };
  const call = makeClient(user.clock, bindings);
  const poor = spenderOf(user, bindings, call);
  if (items.length === 0) return poor;
  const packId = await makePack(app.appId, randomId("Pack "), items);
  const granted = await poor.post("/api/v1/credits/grant", { userId: user.userId, packId });
  expect(granted.status).toBe(200);
  const balanceIds = granted.body.balances.map((balance: { balanceId: string }) => balance.balanceId);
  return spenderOf({ ...user, balanceIds }, bindings, call);
}

function spenderOf(
  user: Pick<Spender, "app" | "clock" | "userId" | "balanceIds">,
  bindings: Partial<Env>,
  call: Client,
): Spender {
  const { app, clock, userId, balanceIds } = user;
  const key = app.keys.sk_live;
  const post: Spender["post"] = (path, body, headers = {}) =>
    call("POST", path, { key, headers, ...(body === undefined ? {} : { body }) });
  const get: Spender["get"] = (path) => call("GET", path, { key });
  return {
    ...user,
    inNewIsolate: () => spenderOf(user, bindings, makeClient(clock, bindings)),
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

/** Commits, releases or extends a reservation. */
export const changeReservation = (
  { post }: Pick<Spender, "post">,
  id: string,
  verb: "commit" | "release" | "extend",
  body?: object,
): Promise<Answer> => post(`${RESERVATIONS}/${id}/${verb}`, body);

/** Runs the cron's part that returns and charges due holds. */
export async function runHoldsPart({ clock }: Pick<Spender, "clock">, d1: D1Database = env.DB): Promise<void> {
  await scheduled(bound({ DB: d1 }), { isolate: {}, now: clock.now, newId: randomId }, [holdsPart]);
}
