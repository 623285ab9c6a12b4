import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { randomId } from "../../src/lib/ids.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { EVENTS } from "../support/paths.ts";
import { expectError } from "../support/rejections.ts";
import { makeSpender } from "../support/spender.ts";
import { Clock, makeApp, makeClient, makeOpenAmountPack, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

/** Numbers whose nearest double is an amount, although their own digits are not. */
const ROUNDED = [
  "1.0000000000000001",
  "0.1000000000000000055511151231257827",
  "0.99999999999999999999",
  "10000000000000000000e-19000000000000000000000000001",
  "1e-400",
  "0.30000000000000000000000001e1",
  "8589934591.99999900000000001",
];

/** Exact amounts in several notations. */
const EXACT: readonly (readonly [string, number])[] = [
  ["1.000000000000000000000", 1],
  ["0.00000000000000000000100e21", 1],
  ["1000000000000000000000e-21", 1],
  ["0000.5", Number.NaN],
  ["0.1", 0.1],
  ["123456789.123000000000", 123_456_789.123],
  ["8589934591.999", 8_589_934_591.999],
];

async function makeSeller() {
  const call = makeClient(new Clock());
  const app = await makeApp();
  await makeOpenAmountPack(app.appId, "Legacy", "cents");
  await makePack(app.appId, "Items", [{ amountMinor: 5_000, unit: "tokens" }]);
  const key = app.keys.sk_live;
  const grant = (pack: string, quantity: string) =>
    call("POST", "/api/v1/credits/grant", { key, body: `{"userId":"u","packId":"${pack}","quantity":${quantity}}` });
  const admin = (path: string, body: string) => call("POST", `/api/v1/admin${path}`, { key: env.ADMIN_TOKEN, body });
  return { app, grant, admin };
}

type Debit = { readonly amount: number };

it("an amount with many digits is rejected as the quantity of a grant when only its nearest double is valid", async () => {
  const { grant } = await makeSeller();
  for (const quantity of ROUNDED) {
    expectError(await grant("legacy", quantity), "invalid_quantity", "quantity");
    expectError(await grant("legacy", `-${quantity}`), "invalid_quantity", "quantity");
  }
  expectError(await grant("legacy", "-0.00000000000000000000"), "invalid_quantity", "quantity");
});

it("an amount with many digits is ignored as the quantity of a pack with items", async () => {
  const { grant } = await makeSeller();
  for (const quantity of [...ROUNDED, "-12345678901234567890", "1e999", "-1e999"]) {
    expect((await grant("items", quantity)).status, quantity).toBe(200);
  }
});

it("an amount with many digits is granted exactly, in any notation that JSON allows", async () => {
  const { grant } = await makeSeller();
  for (const [quantity, remaining] of EXACT) {
    const answer = await grant("legacy", quantity);
    if (Number.isNaN(remaining)) expectError(answer, "invalid_request", "body");
    else expect(answer.body.remaining, quantity).toBe(remaining);
  }
});

it("an amount with many digits is rounded in an event, a plan, a reservation and a commit, with a warning", async () => {
  const { post, userId } = await makeSpender([{ amountMinor: 8_000_000_000_000_000, unit: "cents" }]);
  const quantities = (digits: string) => `"quantities":{"count":0,"cents":${digits}}`;
  const body = (digits: string, more: string) => `{"userId":"${userId}","event":"e",${quantities(digits)}${more}}`;
  for (const [index, digits] of ROUNDED.entries()) {
    const reservationId = `res_${index}`;
    const answers = [
      await post("/api/v1/credits/plan", body(digits, "")),
      await post(EVENTS, body(digits, `,"eventId":"e${index}","onShortage":"partial"`)),
    ];
    for (const { status, headers } of answers) {
      expect(status, digits).toBe(200);
      expect(headers.get("purser-warning"), digits).toContain("rounded");
    }
    const [planned, recorded] = answers.map(({ body: { debits } }) => debits.map(({ amount }: Debit) => amount));
    expect(planned, digits).toEqual(recorded);
    if (recorded.length === 0 || recorded[0] > 1e9) continue;
    const held = await post("/api/v1/usage/reservations", body(digits, `,"reservationId":"${reservationId}"`));
    expect(
      held.body.holds.map(({ amount }: Debit) => amount),
      digits,
    ).toEqual(recorded);
    const commit = `{"eventId":"c${index}",${quantities(digits)}}`;
    const settled = await post(`/api/v1/usage/reservations/${reservationId}/commit`, commit);
    expect(
      settled.body.debits.map(({ amount }: Debit) => amount),
      digits,
    ).toEqual(recorded);
  }
});

it("an amount with many digits is rejected in a pack's item and in an adjustment", async () => {
  const { app, admin, grant } = await makeSeller();
  const { balanceId } = (await grant("legacy", "5")).body;
  for (const digits of ROUNDED) {
    const item = `{"packName":"P","items":[{"amount":${digits},"unit":"cents"}]}`;
    expectError(await admin(`/apps/${app.appId}/packs`, item), "invalid_request", "items[0].amount");
    const adjustment = await admin(`/balances/${balanceId}/adjust`, `{"delta":${digits},"note":"n"}`);
    expectError(adjustment, "invalid_request", "delta");
  }
});

it("any other number with many digits is rejected by the name of its field", async () => {
  const { post, userId } = await makeSpender([]);
  const long = "12345678901234567890";
  const wrong: [string, string][] = [
    ["quantities", `{"eventId":"e","userId":"${userId}","event":"e","quantities":${long}}`],
    ["userId", `{"eventId":"e","userId":${long},"event":"e"}`],
    ["properties", `{"eventId":"e","userId":"${userId}","event":"e","properties":${long}}`],
    ["body", long],
  ];
  for (const [param, body] of wrong) expectError(await post(EVENTS, body), "invalid_request", param);
  const hold = `{"userId":"${userId}","event":"e","quantities":{},"expiresInSeconds":300.00000000000000001}`;
  expectError(await post("/api/v1/usage/reservations", hold), "invalid_request", "expiresInSeconds");
});

it("any other number with many digits is rounded to a double in an event's properties", async () => {
  const { post, userId } = await makeSpender([{ amountMinor: 1_000, unit: "count" }]);
  const eventId = randomId("e");
  const properties = '{"a":[{"count":12345678901234567890,"b":1.0000000000000001}],"s":"1.0000000000000001"}';
  const body = `{"eventId":"${eventId}","userId":"${userId}","event":"e","properties":${properties}}`;
  expect((await post(EVENTS, body)).status).toBe(200);
  const row = await env.DB.prepare("SELECT properties FROM usage_events WHERE event_id = ?").bind(eventId).first();
  expect(row).toEqual({ properties: JSON.stringify(JSON.parse(properties)) });
  expect((await post(EVENTS, body)).headers.get("idempotent-replayed")).toBe("true");
});
