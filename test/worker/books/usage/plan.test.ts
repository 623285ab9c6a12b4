import { afterAll, expect, it } from "vitest";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { expectError } from "../../../support/rejections.ts";
import { makeSpender, type Spender } from "../../../support/spender.ts";

afterAll(expectLedgerInvariants);

const plan = ({ post, userId }: Spender, body: object = {}) =>
  post("/api/v1/credits/plan", { userId, event: "chat.completed", ...body });

it("a plan shows which balances would pay and why each of the others would not, and changes nothing", async () => {
  const spender = await makeSpender([
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "chat.*" }], priority: 1 },
    { amountMinor: 400_000, unit: "tokens", matches: [{ event: "image.*" }], priority: 2 },
    { amountMinor: 400_000, unit: "seconds", priority: 3 },
    { amountMinor: 10_000_000, unit: "cents", priority: 4 },
    { amountMinor: 10_000_000, unit: "cents", priority: 5 },
    { amountMinor: 1_000, unit: "count", matches: [{ event: "setup" }], priority: 6 },
    { amountMinor: 1_000, unit: "seconds", matches: [{ event: "image.*" }], priority: 7 },
  ]);
  const ids = spender.balanceIds;
  await spender.spend("e0", { event: "setup", quantities: { count: 1 } });
  await spender.post("/api/v1/credits/revoke", { balanceId: ids[6] });
  const before = await spender.ledger();
  const { status, body } = await plan(spender, { quantities: { tokens: 1_200, cents: 3.6 } });
  expect(status).toBe(200);
  const packName = expect.any(String);
  expect(body).toEqual({
    ...{ quantities: { count: 1, tokens: 1_200, cents: 3.6 }, memberId: null, meters: null, priceVersion: null },
    debits: [
      { balanceId: ids[0], packId: expect.any(String), unit: "tokens", amount: 400, remaining: 0 },
      { balanceId: ids[3], packId: expect.any(String), unit: "cents", amount: 2.4, remaining: 7.6 },
    ],
    uncovered: null,
    limits: [],
    skipped: [
      { balanceId: ids[1], packName, unit: "tokens", remaining: 400, reason: "no_match" },
      { balanceId: ids[2], packName, unit: "seconds", remaining: 400, reason: "wrong_unit" },
      { balanceId: ids[4], packName, unit: "cents", remaining: 10, reason: "not_needed" },
      { balanceId: ids[5], packName, unit: "count", remaining: 0, reason: "depleted" },
      { balanceId: ids[6], packName, unit: "seconds", remaining: 0, reason: "revoked" },
    ],
  });
  expect(await spender.ledger()).toEqual(before);
});

it("a plan equals the debits of the same event", async () => {
  const spender = await makeSpender([
    { amountMinor: 333, unit: "tokens" },
    { amountMinor: 777_777, unit: "cents" },
    { amountMinor: 5_000, unit: "seconds", matches: [{ model: "large*" }] },
    { amountMinor: 9_000_000, unit: "cents" },
  ]);
  for (let index = 0; index < 12; index++) {
    const use = {
      quantities: { tokens: (index * 37) % 11, cents: 0.1 + index / 10, seconds: index % 3 },
      ...(index % 2 === 0 ? { model: "large-2" } : {}),
      onShortage: "partial",
    };
    const planned = await plan(spender, use);
    const spent = await spender.spend(`e${index}`, use);
    expect([planned.body.debits, planned.body.uncovered]).toEqual([spent.body.debits, spent.body.uncovered]);
  }
});

it("a plan counts a due hold as returned, and an expired balance as expired", async () => {
  const spender = await makeSpender([{ amountMinor: 5_000, unit: "tokens" }]);
  await spender.reserve({ quantities: { tokens: 5 } });
  expect((await plan(spender, { quantities: { tokens: 1, count: 0 } })).body).toMatchObject({
    debits: [],
    uncovered: { tokens: 1 },
    skipped: [{ reason: "depleted" }],
  });
  spender.clock.advance(300_000);
  expect((await plan(spender, { quantities: { tokens: 1 } })).body.debits).toMatchObject([{ amount: 1, remaining: 4 }]);
  expect(await spender.remaining()).toEqual([0]);
});

it("a plan lists the newest hundred unspendable balances, the active ones, and those that a due hold returns to", async () => {
  const item = { amountMinor: 1_000, unit: "tokens" } as const;
  const spender = await makeSpender(Array.from({ length: 130 }, (_, index) => ({ ...item, priority: index })));
  const [oldest = "", ...others] = spender.balanceIds;
  // The oldest balance is completely held, and its hold is due below. Of the others all but three are revoked.
  await spender.reserve({ quantities: { count: 0, tokens: 1 }, expiresInSeconds: 1 });
  expect((await spender.remaining())[0]).toBe(0);
  const dead = others.filter((_, index) => index % 50 !== 0);
  for (const balanceId of dead) await spender.post("/api/v1/credits/revoke", { balanceId });
  const live = others.filter((id) => !dead.includes(id));
  const skipped = async () => {
    const { body } = await plan(spender, { quantities: { count: 1 } });
    return body.skipped as { balanceId: string; reason: string }[];
  };
  const idsOf = (of: { balanceId: string }[]) => of.map(({ balanceId }) => balanceId).sort();
  const before = await skipped();
  expect(idsOf(before)).toEqual([...live, ...dead.slice(-100)].sort());
  expect(before.filter(({ reason }) => reason === "revoked")).toHaveLength(100);
  spender.clock.advance(1_000);
  const { body } = await plan(spender, { quantities: { tokens: 4 } });
  expect(idsOf(body.debits)).toEqual([oldest, ...live].sort());
});

it("a plan accepts the body of an event, but not its eventId", async () => {
  const spender = await makeSpender([]);
  expectError(await plan(spender, { eventId: "e1" }), "invalid_request", "eventId");
  expectError(await plan(spender, { quantities: { tokens: -1 } }), "invalid_request", "quantities.tokens");
  const whole = { model: "m", occurredAt: "2026-01-01T00:00Z", properties: { a: 1 }, onShortage: "reject" };
  expect((await plan(spender, whole)).body).toEqual({
    ...{ debits: [], uncovered: { count: 1 }, skipped: [], limits: [] },
    ...{ quantities: { count: 1 }, memberId: null, meters: null, priceVersion: null },
  });
});
