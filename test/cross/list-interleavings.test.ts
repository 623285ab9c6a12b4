import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { hookedD1 } from "../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { centsOnly } from "../support/spender.ts";
import { type Answer, Clock, makeApp, makeClient, makePack } from "../support/world.ts";

// A write between the trips of a list has the same outcome as before the list or after it. The list is written separately for each
// user, so each intruding write is about one user.

afterAll(expectLedgerInvariants);

const event = (eventId: string, amount: number, more: object = {}) => ({
  ...{ userId: "u", event: "chat.completed", eventId, ...centsOnly(amount) },
  ...more,
});

const EVENT_LIST = [
  event("a", 3),
  event("b", 5),
  event("v", 1, { userId: "v" }),
  event("c", 100),
  event("d", 4, { onShortage: "partial" }),
  event("b", 5),
];

type Post = (path: string, body: object) => Promise<Answer>;

/** Two users with 4 cents for `chat.*` and 10 for all events. A hold keeps 3 cents of the first user. */
async function enter() {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", [
    { amountMinor: 4_000_000, unit: "cents", matches: [{ event: "chat.*" }], priority: 1 },
    { amountMinor: 10_000_000, unit: "cents" },
  ]);
  const key = app.keys.sk_live;
  const posting = (d1: D1Database): Post => {
    const call = makeClient(clock, { DB: d1 });
    return (path, body) =>
      call("POST", `/api/v1/${path}`, { key: path.startsWith("admin/") ? env.ADMIN_TOKEN : key, body });
  };
  const elsewhere = posting(env.DB);
  const granted = await elsewhere("credits/grant", { userId: "u", packId });
  const walletId: string = granted.body.balances[1].balanceId;
  await elsewhere("credits/grant", { userId: "v", packId });
  const hold = { userId: "u", event: "chat.x", ...centsOnly(3), reservationId: "res_a", expiresInSeconds: 60 };
  expect((await elsewhere("usage/reservations", hold)).status).toBe(200);
  const read = makeClient(clock);
  const remaining = async () => {
    const lists = await Promise.all(
      ["u", "v"].map((userId) => read("GET", `/api/v1/credits?userId=${userId}&includeExpired=true`, { key })),
    );
    return lists.map(({ body }) =>
      body.credits.map((credit: { remaining: number; status: string }) => [credit.remaining, credit.status]),
    );
  };
  return { clock, packId, walletId, elsewhere, posting, remaining };
}

type World = Awaited<ReturnType<typeof enter>>;

const INTRUDERS: Readonly<Record<string, (world: World) => Promise<Answer>>> = {
  "a debit": ({ elsewhere }) => elsewhere("usage/events", event("x", 6)),
  "the same event": ({ elsewhere }) => elsewhere("usage/events", event("a", 3)),
  "another event under one of its ids": ({ elsewhere }) => elsewhere("usage/events", event("b", 1)),
  "a list that shares an event": ({ elsewhere }) =>
    elsewhere("usage/events", [event("x", 2), event("a", 3), event("y", 9)]),
  "a grant": ({ clock, elsewhere, packId }) => {
    clock.advance(1);
    return elsewhere("credits/grant", { userId: "u", packId });
  },
  "a revoke": ({ elsewhere, walletId }) => elsewhere("credits/revoke", { balanceId: walletId }),
  "an adjustment up": ({ elsewhere, walletId }) =>
    elsewhere(`admin/balances/${walletId}/adjust`, { delta: 2.5, note: "test" }),
  "a hold": ({ elsewhere }) => elsewhere("usage/reservations", { userId: "u", event: "chat.x", ...centsOnly(8) }),
  "a commit": ({ elsewhere }) => elsewhere("usage/reservations/res_a/commit", { eventId: "x", ...centsOnly(1) }),
  "a release": ({ elsewhere }) => elsewhere("usage/reservations/res_a/release", {}),
  "a hold that becomes due": async ({ clock, elsewhere }) => {
    clock.advance(60_000);
    return elsewhere("usage/events", event("x", 0.5));
  },
};

interface EventResult {
  readonly error?: { readonly code: string; readonly details?: object };
  readonly debits?: readonly { readonly amount: number; readonly remaining: number }[];
  readonly uncovered?: object | null;
}

/** A result without its ids, which differ between worlds. */
const withoutIds = ({ error, debits, uncovered }: EventResult) => ({
  ...(error === undefined ? {} : { code: error.code }),
  debits: debits?.map(({ amount, remaining }) => ({ amount, remaining })),
  uncovered,
});

async function outcomeOf(world: World, list: Answer, intruder: Answer) {
  expect(list.status).toBe(200);
  const other = "results" in intruder.body ? intruder.body.results.map(withoutIds) : withoutIds(intruder.body);
  return {
    list: list.body.results.map(withoutIds),
    intruder: [intruder.status, other],
    remaining: await world.remaining(),
  };
}

type Intruder = (world: World) => Promise<Answer>;

async function serially(intrude: Intruder, isListFirst: boolean) {
  const world = await enter();
  const send = world.posting(env.DB);
  if (isListFirst) {
    const list = await send("usage/events", EVENT_LIST);
    return outcomeOf(world, list, await intrude(world));
  }
  const intruder = await intrude(world);
  return outcomeOf(world, await send("usage/events", EVENT_LIST), intruder);
}

/** The list, with the intruding write before one of its trips. */
async function between(intrude: Intruder, at: number) {
  const world = await enter();
  let isArmed = true;
  let intruder: Answer | undefined;
  const d1 = hookedD1(env.DB, async (trip) => {
    if (trip !== at || !isArmed) return;
    isArmed = false;
    intruder = await intrude(world);
  });
  const answer = await world.posting(d1)("usage/events", EVENT_LIST);
  return intruder === undefined ? null : outcomeOf(world, answer, intruder);
}

describe.each(Object.entries(INTRUDERS))("%s between the trips of a list of events", (_, intrude) => {
  it("has the same outcome as before the list or after it", async () => {
    const serial = [await serially(intrude, false), await serially(intrude, true)];
    for (const at of [1, 2, 3]) {
      const outcome = await between(intrude, at);
      if (outcome !== null) expect(serial).toContainEqual(outcome);
    }
  });
});
