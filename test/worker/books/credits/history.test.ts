import { afterAll, expect, it } from "vitest";
import { consume, creditsWorld } from "../../../support/credits.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeOpenAmountPack, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

interface Entry {
  readonly id: string;
  readonly balanceId: string;
  readonly delta: number;
  readonly reason: string;
}

/** A user with two balances and `count` entries: two grants, then debits of both in turn, of 0.001, 0.002 and so on. */
async function worldWithLedger(count: number) {
  const w = await creditsWorld();
  await makeOpenAmountPack(w.app.appId, "Legacy", "tokens");
  const ids: string[] = [];
  for (let granted = 0; granted < 2; granted++) {
    ids.push((await w.grant({ userId: "u", packId: "legacy", quantity: 1_000_000 })).body.balanceId);
  }
  for (let index = 1; index <= count - 2; index++) await consume(ids[index % 2] ?? "", index);
  const [even = "", odd = ""] = ids;
  const walk = async (query: Record<string, string>, between: () => Promise<unknown> = async () => null) => {
    const pages: Entry[][] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const answer = await w.history({ userId: "u", ...query, ...(cursor === "" ? {} : { cursor }) });
      expect(answer.status).toBe(200);
      pages.push(answer.body.entries);
      cursor = answer.body.nextCursor;
      await between();
    }
    return pages;
  };
  return { ...w, even, odd, walk };
}

it("a ledger entry has the API's fields, and note, unit, cause and by", async () => {
  const w = await creditsWorld();
  const packId = await makePack(w.app.appId, "Starter", [{ amountMinor: 2_500_000, unit: "cents" }]);
  const { balanceId } = (await w.grant({ userId: "u", packId, notes: "welcome" })).body;
  w.clock.advance(5);
  await w.revoke({ balanceId, reason: "refunded" });
  const answer = await w.history({ userId: "u" });
  expect(answer.status).toBe(200);
  const by = expect.stringMatching(/^key_/);
  const common = { id: expect.any(String), by, balanceId, packId, unit: "cents", eventId: null, reservationId: null };
  expect(answer.body).toEqual({
    entries: [
      {
        ...common,
        delta: -2.5,
        reason: "admin_adjust",
        cause: "revoke",
        note: "refunded",
        occurredAt: new Date(w.clock.ms).toISOString(),
      },
      {
        ...common,
        delta: 2.5,
        reason: "grant",
        cause: "grant",
        note: "welcome",
        occurredAt: new Date(w.clock.ms - 5).toISOString(),
      },
    ],
    nextCursor: null,
  });
});

it("a ledger entry has a unique id, the same on every page that shows it", async () => {
  const w = await worldWithLedger(12);
  const whole = (await w.walk({})).flat();
  expect(new Set(whole.map((entry) => entry.id)).size).toBe(12);
  expect((await w.walk({ limit: "5" })).flat()).toEqual(whole);
  const ofOne = (await w.walk({ balanceId: w.even, limit: "1" })).flat();
  expect(ofOne).toEqual(whole.filter((entry) => entry.balanceId === w.even));
});

it("a page of history has the newest entries first, 50 by default and at most 500", async () => {
  const w = await worldWithLedger(60);
  const first = (await w.history({ userId: "u" })).body;
  expect(first.entries).toHaveLength(50);
  expect(first.entries.slice(0, 3).map((entry: Entry) => entry.delta)).toEqual([-0.058, -0.057, -0.056]);
  expect(first.nextCursor).not.toBeNull();
  const all = (await w.history({ userId: "u", limit: "500" })).body;
  expect(all.entries).toHaveLength(60);
  expect(all.nextCursor).toBeNull();
  expect(all.entries.slice(-2).map((entry: Entry) => entry.reason)).toEqual(["grant", "grant"]);
});

it.each([1, 2, 5, 11, 12, 13])(
  "a page of history of %d reaches every entry once, and ends with nextCursor null",
  async (limit) => {
    const w = await worldWithLedger(12);
    const whole = (await w.history({ userId: "u" })).body.entries;
    const pages = await w.walk({ limit: String(limit) });
    expect(pages.flat()).toEqual(whole);
    expect(pages.map((page) => page.length)).toEqual(
      Array.from({ length: Math.ceil(12 / limit) }, (_, page) => Math.min(limit, 12 - page * limit)),
    );
  },
);

it.each([
  ["of everything", {}],
  ["of one balance", { balanceId: "even" }],
])("a page of history %s does not shift if rows are written between the pages", async (_, narrowed) => {
  const w = await worldWithLedger(12);
  const query = { ...("balanceId" in narrowed ? { balanceId: w.even } : {}) };
  const whole = (await w.history({ userId: "u", ...query })).body.entries;
  const pages = await w.walk({ ...query, limit: "2" }, async () => {
    await consume(w.even, 1);
    await w.grant({ userId: "u", packId: "legacy", quantity: 1 });
  });
  expect(pages.flat()).toEqual(whole);
});

it("a page of history can be read again with the same cursor, and with another limit", async () => {
  const w = await worldWithLedger(12);
  const whole = (await w.history({ userId: "u" })).body.entries;
  const { nextCursor } = (await w.history({ userId: "u", limit: "3" })).body;
  for (const limit of ["1", "3", "9", "500"]) {
    const again = (await w.history({ userId: "u", limit, cursor: nextCursor })).body;
    expect(again.entries).toEqual(whole.slice(3, 3 + Number(limit)));
  }
});

it.each(["0", "501", "-1", "1.5", "1e2", "ten", "", " 5", "+5", "0x10", "５", "999999999999999999999"])(
  "a page of history refuses the limit %j",
  async (limit) => {
    const w = await creditsWorld();
    expectError(await w.history({ userId: "u", limit }), "invalid_request", "limit");
  },
);

it("a page of history accepts the limits 1 and 500", async () => {
  const w = await creditsWorld();
  for (const limit of ["1", "500"]) expect((await w.history({ userId: "u", limit })).status).toBe(200);
});

it.each([
  ["", "userId"],
  ["userId=", "userId"],
  ["userId=u&userId=u", "userId"],
  ["userId=u&limit=5&limit=5", "limit"],
  ["userId=u&cursor=", "cursor"],
  ["userId=u&cursor=a&cursor=a", "cursor"],
  ["userId=u&balanceId=", "balanceId"],
  ["userId=u&balanceId=a&balanceId=a", "balanceId"],
])("a page of history refuses malformed arguments by name: %s", async (query, param) => {
  const w = await creditsWorld();
  expectError(await w.history(query), "invalid_request", param);
});

it("a page of history of an unknown user is empty, and not an error", async () => {
  const w = await creditsWorld();
  expect((await w.history({ userId: "nobody" })).body).toEqual({ entries: [], nextCursor: null });
});

it("a cursor is rejected if any character is altered", async () => {
  const w = await worldWithLedger(5);
  const cursor: string = (await w.history({ userId: "u", limit: "2" })).body.nextCursor;
  const other = (character: string | undefined) => (character === "A" ? "B" : "A");
  const altered = [...cursor].map(
    (character, index) => cursor.slice(0, index) + other(character) + cursor.slice(index + 1),
  );
  for (const text of [
    ...altered,
    `${cursor}A`,
    cursor.slice(1),
    cursor.slice(0, -1),
    ` ${cursor}`,
    `${cursor}=`,
    "4",
    "x",
  ]) {
    expectError(await w.history({ userId: "u", cursor: text }), "invalid_request", "cursor");
  }
});

it("a cursor is rejected in another list: of another user, balance, mode or application", async () => {
  const w = await worldWithLedger(6);
  const of = async (query: Record<string, string>) =>
    (await w.history({ userId: "u", limit: "1", ...query })).body.nextCursor;
  const [plain, even] = [await of({}), await of({ balanceId: w.even })];
  const tried = [
    w.history({ userId: "v", cursor: plain }),
    w.history({ userId: "u", balanceId: w.even, cursor: plain }),
    w.history({ userId: "u", balanceId: w.odd, cursor: even }),
    w.history({ userId: "u", cursor: even }),
    w.call("GET", `/api/v1/credits/history?userId=u&cursor=${plain}`, { key: w.app.keys.sk_test }),
    (await creditsWorld()).history({ userId: "u", cursor: plain }),
  ];
  for (const answer of await Promise.all(tried)) expectError(answer, "invalid_request", "cursor");
});

it("history narrowed by balanceId shows only that balance, newest first, page by page", async () => {
  const w = await worldWithLedger(9);
  const pages = await w.walk({ balanceId: w.odd, limit: "2" });
  expect(pages.map((page) => page.map((entry) => entry.delta))).toEqual([
    [-0.007, -0.005],
    [-0.003, -0.001],
    [1_000_000],
  ]);
  expect(new Set(pages.flat().map((entry) => entry.balanceId))).toEqual(new Set([w.odd]));
});

it("history narrowed by balanceId is credit_balance_not_found for an unknown balance, or one of another user, application or mode", async () => {
  const w = await worldWithLedger(3);
  const stranger = await creditsWorld();
  const tried = [
    w.history({ userId: "u", balanceId: "crb_unknown" }),
    w.history({ userId: "u", balanceId: w.even.toLowerCase() }),
    w.history({ userId: "v", balanceId: w.even }),
    w.history({ userId: "U", balanceId: w.even }),
    stranger.history({ userId: "u", balanceId: w.even }),
    w.call("GET", `/api/v1/credits/history?userId=u&balanceId=${w.even}`, { key: w.app.keys.sk_test }),
  ];
  for (const answer of await Promise.all(tried)) expectError(answer, "credit_balance_not_found", "balanceId");
});

it("history narrowed by balanceId rejects an invalid cursor or limit before it looks for the balance", async () => {
  const w = await creditsWorld();
  expectError(await w.history({ userId: "u", balanceId: "crb_unknown", cursor: "x" }), "invalid_request", "cursor");
  expectError(await w.history({ userId: "u", balanceId: "crb_unknown", limit: "0" }), "invalid_request", "limit");
});

it("history shows only one user, of one application and mode", async () => {
  const w = await worldWithLedger(4);
  const mine = (await w.history({ userId: "u" })).body.entries;
  await w.grant({ userId: "v", packId: "legacy", quantity: 1 });
  await w.call("POST", "/api/v1/credits/grant", {
    key: w.app.keys.sk_test,
    body: { userId: "u", packId: "legacy", quantity: 3 },
  });
  await worldWithLedger(4);
  expect((await w.history({ userId: "u" })).body.entries).toEqual(mine);
  expect((await w.history({ userId: "v" })).body.entries).toHaveLength(1);
});
