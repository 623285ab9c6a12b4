import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { expectError } from "../../../support/rejections.ts";
import { makeSpender, type Spender } from "../../../support/spender.ts";

const totals = async ({ get, userId }: Spender, query = "") =>
  (await get(`/api/v1/usage?userId=${userId}${query}`)).body.totals;

it("totals sum the used quantities by event and unit, covered or not", async () => {
  const spender = await makeSpender([{ amountMinor: 1_000, unit: "tokens" }]);
  const partial = { onShortage: "partial" };
  await spender.spend("e1", { quantities: { tokens: 0.1, cents: 0.000001 }, ...partial });
  await spender.spend("e2", { quantities: { tokens: 0.2, seconds: 0 }, ...partial });
  await spender.spend("e3", { event: "image.made", quantities: { count: 2.5 }, ...partial });
  await spender.spend("e4", { event: "nothing", quantities: { count: 0 }, ...partial });
  await spender.spend("e5", { quantities: { tokens: 99 } });
  expect(await totals(spender)).toEqual([
    { event: "chat.completed", unit: "count", amount: 2 },
    { event: "chat.completed", unit: "tokens", amount: 0.3 },
    { event: "chat.completed", unit: "cents", amount: 0.000001 },
    { event: "image.made", unit: "count", amount: 2.5 },
  ]);
  expect(await totals(spender, "&event=image.*")).toHaveLength(1);
  expect(await totals(spender, "&event=image.made")).toHaveLength(1);
  expect(await totals(spender, "&event=image")).toEqual([]);
  expect(await totals(spender, "&event=*")).toHaveLength(4);
});

it("totals use the time of occurrence, `from` inclusive and `to` exclusive, for any order of arrival", async () => {
  const spender = await makeSpender([]);
  const hours = [12, 9, 15, 9, 3, 13];
  for (const [index, hour] of hours.entries()) {
    const occurredAt = `2026-01-10T${String(hour).padStart(2, "0")}:00:00Z`;
    await spender.spend(`e${index}`, {
      occurredAt,
      quantities: { count: 0, tokens: 2 ** index },
      onShortage: "partial",
    });
  }
  const between = async (from: string, to: string) =>
    (await totals(spender, `&from=2026-01-10T${from}:00Z&to=2026-01-10T${to}:00Z`))[0]?.amount ?? 0;
  expect(await between("00:00", "23:00")).toBe(63);
  expect(await between("09:00", "12:00")).toBe(2 + 8);
  expect(await between("09:00", "12:01")).toBe(2 + 8 + 1);
  expect(await between("12:01", "15:00")).toBe(32);
  expect(await between("13:00", "15:01")).toBe(32 + 4);
  expect(await between("12:00", "12:00")).toBe(0);
  expect((await totals(spender, "&to=2026-01-10T04:00:00Z"))[0].amount).toBe(16);
});

it("totals stay exact beyond a 64-bit sum", async () => {
  const spender = await makeSpender([]);
  const most = 8_796_093_022_208;
  await spender.spend("e1", { event: "much", quantities: { tokens: most }, onShortage: "partial" });
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1050)
       INSERT INTO usage_events (account_id, seq, environment_id, event_id, event, count_minor, tokens_minor,
         occurred_at_ms, received_after_ms, request_hash, debits)
       SELECT account_id, i, environment_id, 'e' || i, event, count_minor, tokens_minor, occurred_at_ms,
         received_after_ms, '', '[]'
       FROM usage_events, n WHERE account_id = (SELECT id FROM accounts WHERE user_id = ?)`,
  )
    .bind(spender.userId)
    .run();
  const tokens = (await totals(spender)).find(({ unit }: { unit: string }) => unit === "tokens");
  expect(tokens.amount).toBe(most * 1_050);
});

it("totals are empty for an unknown user, and are rejected with malformed bounds", async () => {
  const spender = await makeSpender([]);
  expect(await totals(spender)).toEqual([]);
  for (const [name, value] of [
    ["from", "yesterday"],
    ["to", "2026-01-10"],
    ["event", ""],
  ]) {
    expectError(await spender.get(`/api/v1/usage?userId=u&${name}=${value}`), "invalid_request", name);
  }
});
