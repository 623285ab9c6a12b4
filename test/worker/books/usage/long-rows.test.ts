import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { EVENTS, RESERVATIONS } from "../../../support/paths.ts";
import { paymentsWorld } from "../../../support/payments.ts";

/** How many rows of a megabyte there are. Eight of them fit on a page of 8 MiB. */
const ROWS = 12;
/** A list that repeats its only leg. A leg counts as 192 bytes of a page, a debit as 112. */
const repeated = (legs: string, times: number): string =>
  `'[' || substr(replace(hex(zeroblob(${times / 2})), '0', ',' || substr(${legs}, 2, length(${legs}) - 2)), 2) || ']'`;

/** A user with a hold and an event, and with more of each whose list takes up a megabyte. */
async function longWorld() {
  const w = await paymentsWorld();
  const key = w.app.keys.sk_live;
  const usage = { userId: "u", event: "chat", quantities: { count: 0, tokens: 1 } };
  const post = (path: string, body: object) => w.call("POST", path, { key, body });
  expect((await post("/api/v1/credits/grant", { userId: "u", packId: w.packs.tokens, quantity: 10 })).status).toBe(200);
  expect((await post(RESERVATIONS, { ...usage, reservationId: "res_0" })).status).toBe(200);
  expect((await post(EVENTS, { ...usage, eventId: "e_0" })).status).toBe(200);
  const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${ROWS})`;
  await env.DB.batch([
    env.DB.prepare(
      `${numbers} INSERT INTO reservations (environment_id, id, account_id, reservation_number, event, quantities, legs, state, created_at_ms,
         expires_at_ms, request_hash, is_charged, created_at_seq)
       SELECT environment_id, 'res_' || i, account_id, 1 + i, event, quantities, ${repeated("legs", 5_200)}, state,
         created_at_ms + i, expires_at_ms + i, request_hash, is_charged, created_at_seq
       FROM reservations CROSS JOIN n WHERE id = 'res_0' AND environment_id = ?`,
    ).bind(w.app.environments.live.id),
    env.DB.prepare(
      `${numbers} INSERT INTO usage_events (environment_id, account_id, seq, event_id, event, count_minor,
         tokens_minor, occurred_at_ms, received_after_ms, request_hash, debits)
       SELECT environment_id, account_id, seq + i, 'e_' || i, event, count_minor, tokens_minor, occurred_at_ms,
         received_after_ms, request_hash, ${repeated("debits", 8_900)}
       FROM usage_events CROSS JOIN n WHERE event_id = 'e_0' AND environment_id = ?`,
    ).bind(w.app.environments.live.id),
  ]);
  return (path: string) => w.call("GET", `${path}limit=500`, { key });
}

for (const [list, path, id, part] of [
  ["reservations", RESERVATIONS, "reservationId", "holds"],
  ["events", EVENTS, "eventId", "debits"],
] as const) {
  it(`ends a page of ${list} at 8 MiB, and goes on from there`, async () => {
    const get = await longWorld();
    const prefix = list === "events" ? "e_" : "res_";
    const first = await get(`${path}?userId=u&`);
    expect(first.status).toBe(200);
    const second = await get(`${path}?userId=u&cursor=${first.body.nextCursor}&`);
    const pages = [first, second].map(({ body }) => body[list].map((row: Record<string, string>) => row[id]));
    const ids = Array.from({ length: ROWS + 1 }, (_, n) => `${prefix}${ROWS - n}`);
    expect(pages).toEqual([ids.slice(0, 8), ids.slice(8)]);
    expect(second.body.nextCursor).toBeNull();
    for (const row of [...first.body[list], ...second.body[list]]) expect(row[part]?.[0]).toMatchObject({ amount: 1 });
  });
}
