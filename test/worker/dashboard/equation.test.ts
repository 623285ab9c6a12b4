import { env } from "cloudflare:workers";
import { afterAll, beforeEach, expect, it } from "vitest";
import { makeStatements } from "../../../src/books/statements/make-statements.ts";
import { walkBusiness } from "../../../src/dashboard/figures/business.ts";
import { flushActivity } from "../../../src/db/count-activity.ts";
import { DAY_MS, HOUR_MS, iso, MINUTE_MS } from "../../../src/lib/time.ts";
import { openDashboard, readEquation } from "../../support/browse.ts";
import { forgetWalks, runPart } from "../../support/cron.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { bound, makeAdminCtx } from "../../support/world.ts";

// An isolate keeps a limited number of notes for the figures. This stores those of other test files.
beforeEach(() => flushActivity(bound()));
afterAll(expectLedgerInvariants);

/** The last day of 30 that begin with January. */
const LAST_DAY = Date.UTC(2026, 0, 30, 12);

async function world() {
  const w = await paymentsWorld({}, 5);
  w.clock.ms = Date.UTC(2025, 11, 20, 12);
  const { browser, at, read } = await openDashboard(w.app, w.clock);
  const { id } = w.app.environments.live;
  const post = async (path: string, body: object) => {
    const { status, body: answer } = await w.post(path, body);
    expect(status, `${path} ${JSON.stringify(answer)}`).toBe(200);
    return answer;
  };
  return {
    ...{ ...w, browser, at, post },
    adjust: async (balanceId: string, delta: number) => {
      const body = { delta, note: "by hand" };
      const answer = await w.call("POST", `/api/v1/admin/balances/${balanceId}/adjust`, { key: env.ADMIN_TOKEN, body });
      expect(answer.status).toBe(200);
    },
    grant: async (userId: string, quantity: number, expiresAtMs: number | null = null): Promise<string> => {
      const expiresAt = expiresAtMs === null ? null : iso(expiresAtMs);
      const body = { userId, packId: w.packs.tokens, quantity, expiresAt, externalRef: `order of ${userId}` };
      return (await post("credits/grant", body)).balanceId;
    },
    hold: (userId: string, tokens: number, more: object = {}) => {
      const quantities = { count: 0, tokens };
      return post("usage/reservations", { userId, reservationId: `res_${userId}`, event: "x", quantities, ...more });
    },
    refund: (userId: string, part: number) =>
      post("credits/refund", { userId, externalRef: `order of ${userId}`, refundRef: "r", share: { part, of: 100 } }),
    erase: (distinctId: string) => post("erase-person", { distinctId }),
    equation: async () => {
      await flushActivity(bound());
      await browser.signIn();
      const { text } = await read("overview?days=30");
      return {
        lines: readEquation(text),
        isLate: text.includes("differs by what changed since the update"),
      };
    },
    /** The sums of the ledger's entries of these days by cause, by unit. */
    ledger: async (...causes: string[]) => {
      const { results } = await env.DB.prepare(
        `SELECT b.unit AS unit, sum(l.delta_minor) AS minor FROM accounts AS a
         CROSS JOIN credit_balances AS b ON b.account_id = a.id
         CROSS JOIN credit_ledger AS l ON l.account_id = a.id AND l.grant_seq = b.grant_seq
         WHERE a.environment_id = ? AND l.occurred_at_ms >= ? AND l.cause IN (SELECT value FROM json_each(?))
         GROUP BY b.unit`,
      )
        .bind(id, Date.UTC(2026, 0, 1), JSON.stringify(causes))
        .all<{ unit: string; minor: number }>();
      const of = (unit: string) => results.find((row) => row.unit === unit)?.minor ?? 0;
      return { tokens: of("tokens") / 1_000, cents: of("cents") / 1_000_000 };
    },
    /** The closing amounts of December's statement, by unit. */
    closingOfDecember: async () => {
      const path = `/api/v1/admin/apps/${w.app.appId}/statements`;
      const key = env.ADMIN_TOKEN;
      const asked = await w.call("POST", path, { key, body: { mode: "live", month: "2025-12" } });
      expect(await runPart(makeStatements, makeAdminCtx(w.clock))).toEqual([]);
      const { lines } = (await w.call("GET", `${path}/${asked.body.statementId}`, { key })).body;
      const of = (unit: string): number =>
        lines
          .filter((line: { unit: string }) => line.unit === unit)
          .reduce((sum: number, { closing }: { closing: number }) => sum + closing, 0);
      return { tokens: of("tokens"), cents: of("cents") };
    },
  };
}

it("the overview's equation begins with the closing amounts of the last month's statement, whatever changed since", async () => {
  const w = await world();
  const soon = w.clock.ms + 5 * DAY_MS;
  // Credits that have expired when the month begins.
  for (const [userId, tokens] of [
    ["refunded later", 100],
    ["erased later", 20],
  ] as const)
    await w.grant(userId, tokens, soon);
  const revokedLater = await w.grant("revoked later", 40, soon);
  const adjustedLater = await w.grant("adjusted later", 30, soon);
  const paid = { client_reference_id: "payer", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  const seconds = w.clock.ms / 1_000;
  expect(await w.deliver(eventOf("checkout.session.completed", seconds, session("cs_1", paid)))).toBe("granted");
  // Credits that remain.
  const [dueHold, heldThenRevoked] = [await w.grant("due hold", 100), await w.grant("held, then revoked", 100)];
  for (const userId of ["owes", "erased with a hold", "spends"]) await w.grant(userId, 100);
  await w.grant("charged", 100, Date.UTC(2026, 0, 3));
  // A hold that outlives its balance, over the end of the month.
  w.clock.ms = Date.UTC(2025, 11, 31, 20);
  await w.grant("holds", 60, w.clock.ms + 2 * HOUR_MS);
  await w.hold("holds", 25, { expiresInSeconds: 86_400 });

  w.clock.ms = Date.UTC(2026, 0, 1, 10);
  await w.post("usage/reservations/res_holds/commit", { eventId: "e1", quantities: { count: 0, tokens: 10 } });
  await w.refund("refunded later", 50);
  await w.post("credits/revoke", { balanceId: revokedLater });
  await w.adjust(adjustedLater, 5.5);
  await w.erase("erased later");
  expect(await w.deliver(eventOf("charge.refunded", w.clock.ms / 1_000, charge("ch_1", "pi_1", 300)))).toBe("taken");

  // A hold that is due when its balance is revoked, one that returns to a revoked balance, and one that pays what is owed.
  await w.hold("due hold", 40);
  w.clock.advance(10 * MINUTE_MS);
  await w.post("credits/revoke", { balanceId: dueHold });
  await w.hold("held, then revoked", 40);
  await w.post("credits/revoke", { balanceId: heldThenRevoked });
  await w.post("usage/reservations/res_held%2C%20then%20revoked/release", {});
  await w.hold("owes", 90);
  await w.refund("owes", 50);
  await w.post("usage/reservations/res_owes/release", {});
  await w.hold("erased with a hold", 70);
  await w.erase("erased with a hold");
  await w.post("credits/recurring", {
    ...{ recurringId: "rec_a", userId: "recurs", packId: w.packs.tokens, quantity: 12, every: "month" },
    rolloverPeriods: 12,
  });
  await w.post("credits/recurring/rec_a/cancel", { at: "now" });
  await w.post("usage/events", { eventId: "e2", userId: "spends", event: "x", quantities: { count: 0, tokens: 30 } });
  // A charge of a hold whose balance has expired since.
  w.clock.ms = Date.UTC(2026, 0, 2, 23, 50);
  await w.hold("charged", 80, { onExpiry: "charge", expiresInSeconds: 1_200 });
  w.clock.advance(HOUR_MS);
  await w.post("usage/events", { eventId: "e3", userId: "charged", event: "free", quantities: { tokens: 0 } });
  // Credits that expire in these days, and are revoked or adjusted then.
  const expiresIn = await w.grant("expires", 15, w.clock.ms + DAY_MS);
  const revokedIn = await w.grant("expires and is revoked", 16, w.clock.ms + DAY_MS);
  w.clock.advance(3 * DAY_MS);
  await w.post("credits/revoke", { balanceId: revokedIn });
  await w.adjust(expiresIn, -4);
  w.clock.ms = LAST_DAY;
  await w.hold("spends", 20);

  const closing = await w.closingOfDecember();
  // Of the amounts that were left in December only that of the hold's balance, and those that had expired, are no part of it.
  expect(closing).toEqual({ tokens: 600, cents: 0 });
  const { lines: equation, isLate } = await w.equation();
  for (const [label, ...causes] of [
    ["Granted", "grant", "payment", "recurring"],
    ["Spent", "usage"],
    ["Returned", "refund", "payment_taken"],
    ["Revoked", "revoke"],
    ["Adjusted", "adjustment"],
    ["Erased", "erasure"],
  ] as const) {
    expect(equation[label], label).toEqual(await w.ledger(...causes));
  }
  expect(equation["Outstanding now"]).toEqual({ tokens: 120, cents: 0 });
  expect(equation["Outstanding at the start"]).toEqual(closing);
  expect(isLate).toBe(false);

  // The same by the hourly figures, which larger environments have.
  await env.DB.prepare(
    `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 301)
     INSERT INTO accounts (environment_id, user_id) SELECT CAST(? AS INTEGER), 'other ' || i FROM n`,
  )
    .bind(w.app.environments.live.id)
    .run();
  await forgetWalks();
  for (let n = 0; n < 3; n++) expect(await runPart(walkBusiness, makeAdminCtx(w.clock))).toEqual([]);
  const hourly = await w.equation();
  const { Outstanding, ...terms } = hourly.lines;
  const { "Outstanding now": now, ...expected } = equation;
  expect([Outstanding, terms, hourly.isLate]).toEqual([now, expected, true]);
});
