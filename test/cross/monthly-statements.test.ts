import { env } from "cloudflare:workers";
import { afterAll, describe, expect, it } from "vitest";
import { MINOR_A_UNIT } from "../../src/books/amounts/amount.ts";
import { COLUMNS, isBalanced, type LineAmounts, noAmounts, readAmounts } from "../../src/books/statements/lines.ts";
import { makeStatements } from "../../src/books/statements/make-statements.ts";
import { flushActivity } from "../../src/db/count-activity.ts";
import { DAY_MS, HOUR_MS } from "../../src/lib/time.ts";
import { openDashboard, readEquation } from "../support/browse.ts";
import { runPart } from "../support/cron.ts";
import { expectLedgerInvariants } from "../support/invariants.ts";
import { paymentsWorld } from "../support/payments.ts";
import { createRandom } from "../support/random.ts";
import { RANDOM_SEED, soakCount, timeoutOf } from "../support/soak.ts";
import { dispute } from "../support/stripe-disputes.ts";
import { charge, eventOf, session } from "../support/stripe-events.ts";
import { atRandom, bound, makeAdminCtx, makeClient, makePack } from "../support/world.ts";

afterAll(expectLedgerInvariants);

const OPERATIONS = soakCount(120, 60);

interface Row {
  readonly balanceId: string;
  readonly unit: string;
  readonly packId: string;
  readonly source: string;
  readonly expiresAtMs: number;
  readonly cause: string;
  readonly delta: number;
  readonly atMs: number;
}

/** A month's lines as sums of all entries from the first one on. Purser calculates backwards from the present. */
function sumsOf(rows: readonly Row[], fromMs: number, toMs: number): Map<string, LineAmounts> {
  const lines = new Map<string, LineAmounts>();
  for (const [, own] of Map.groupBy(rows, ({ balanceId }) => balanceId)) {
    const [{ unit, packId, source, expiresAtMs } = own[0] as Row] = own;
    const key = `${unit} ${packId}`;
    const line = lines.get(key) ?? noAmounts();
    lines.set(key, line);
    const isHold = ({ cause }: Row) => cause === "hold" || cause === "hold_returned";
    const sum = (some: readonly Row[]) => some.reduce((total, { delta }) => total + BigInt(delta), 0n);
    const before = (ms: number) => own.filter(({ atMs }) => atMs < ms);
    const owned = (ms: number) => sum(before(ms).filter((row) => !isHold(row)));
    if (expiresAtMs > fromMs) line.opening += owned(fromMs);
    else line.expired -= owned(fromMs);
    if (expiresAtMs > toMs) {
      line.closing += owned(toMs);
      line.held -= sum(before(toMs).filter(isHold));
    } else line.expired += owned(toMs);
    for (const { cause, delta } of own.filter(({ atMs }) => atMs >= fromMs && atMs < toMs)) {
      const minor = BigInt(delta);
      if (cause === "grant") line[`granted.${source}` as keyof LineAmounts] += minor;
      else if (cause === "payment" || cause === "recurring") line[`granted.${cause}`] += minor;
      else if (cause === "usage") line.spent -= minor;
      else if (cause === "refund") line.refunded -= minor;
      else if (cause === "payment_taken") line.taken -= minor;
      else if (cause === "payment_restored") line.restored += minor;
      else if (cause === "revoke") line.revoked -= minor;
      else if (cause === "adjustment") line.adjusted += minor;
      else if (cause === "erasure") line.erased -= minor;
    }
  }
  for (const [key, line] of lines) if (COLUMNS.every((column) => line[column] === 0n)) lines.delete(key);
  return lines;
}

async function entriesOf(environmentId: number): Promise<Row[]> {
  const { results } = await env.DB.prepare(
    `SELECT b.id AS balanceId, b.unit, b.pack_id AS packId, b.source, b.expires_at_ms AS expiresAtMs, l.cause,
       l.delta_minor AS delta, l.occurred_at_ms AS atMs
     FROM accounts AS a JOIN credit_ledger AS l ON l.account_id = a.id
     JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
     WHERE a.environment_id = ? ORDER BY l.account_id, l.seq`,
  )
    .bind(environmentId)
    .all<Row>();
  return results;
}

const monthOf = (ms: number) => new Date(ms).toISOString().slice(0, 7);
const spanOf = (month: string) => {
  const [year = 0, number = 0] = month.split("-").map(Number);
  return [Date.UTC(year, number - 1), Date.UTC(year, number)] as const;
};

describe(`monthly statements of random histories, PROOF_SEED=${RANDOM_SEED}`, () => {
  it("equal the sums of all ledger entries, balance exactly, and open with the previous month's closing, and so does the overview", {
    timeout: timeoutOf(OPERATIONS, 1_000),
  }, async () => {
    console.info(`monthly-statements.test.ts: PROOF_SEED=${RANDOM_SEED}`);
    const random = createRandom(RANDOM_SEED);
    const { app, clock, deliver } = await paymentsWorld();
    const call = makeClient(clock, {}, undefined, atRandom(2, random));
    const key = app.keys.sk_live;
    await makePack(app.appId, "One", [{ amountMinor: 70_001, unit: "tokens" }]);
    const users = ["ana", "bo", "cy", "di"];
    const balances: string[] = [];
    const holds: string[] = [];
    const recurring: string[] = [];
    const orders: [userId: string, externalRef: string][] = [];
    const post = (path: string, body: object) => call("POST", `/api/v1/${path}`, { key, body });
    const admin = (path: string, body: object) => call("POST", `/api/v1/admin/${path}`, { key: env.ADMIN_TOKEN, body });
    let n = 0;
    const quantities = () => ({ count: 0, tokens: random.integer(0, 400), cents: random.integer(0, 3) });
    const operations: ((userId: string) => Promise<unknown>)[] = [
      async (userId) => {
        const expiresAt = random.chance(0.6) ? new Date(clock.ms + random.integer(1, 50 * DAY_MS)).toISOString() : null;
        const source = random.pick(["purchase", "grant", "refund", "manual"] as const);
        const body = { userId, packId: random.pick(["One", "Two"]), source, expiresAt, externalRef: `order ${n}` };
        orders.push([userId, body.externalRef]);
        const { body: made } = await post("credits/grant", body);
        for (const { balanceId } of made.balances ?? [made]) if (balanceId !== undefined) balances.push(balanceId);
      },
      (userId) =>
        post("usage/events", {
          eventId: `e${n}`,
          userId,
          event: "chat.a",
          quantities: quantities(),
          onShortage: "partial",
        }),
      async (userId) => {
        const reservationId = `res_${app.appId.slice(4, 12)}_${n}`;
        const more = {
          expiresInSeconds: random.integer(1, 86_400),
          onExpiry: random.pick(["return", "charge"] as const),
        };
        const reservation = await post("usage/reservations", {
          reservationId,
          userId,
          event: "chat.a",
          quantities: quantities(),
          ...more,
        });
        if (reservation.status === 200) holds.push(reservationId);
      },
      async () => {
        if (holds.length === 0) return;
        const reservationId = random.pick(holds);
        if (random.chance(0.5)) await post(`usage/reservations/${reservationId}/release`, {});
        else
          await post(`usage/reservations/${reservationId}/commit`, {
            eventId: `c${n}`,
            quantities: quantities(),
            onShortage: "partial",
          });
      },
      async () => {
        if (orders.length === 0) return;
        const [userId, externalRef] = random.pick(orders);
        await post("credits/refund", { userId, externalRef, refundRef: `r${n}`, share: { part: 1, of: 3 } });
      },
      async () => (balances.length === 0 ? null : post("credits/revoke", { balanceId: random.pick(balances) })),
      async () =>
        balances.length === 0
          ? null
          : admin(`balances/${random.pick(balances)}/adjust`, { delta: random.integer(-20, 60) || 1, note: "by hand" }),
      (userId) =>
        post("credits/recurring", {
          recurringId: `rec_${userId}_${n}`,
          userId,
          packId: "One",
          every: random.pick(["day", "week", "month"] as const),
        }).then(({ status }) => (status === 200 ? recurring.push(`rec_${userId}_${n}`) : null)),
      async () =>
        recurring.length === 0
          ? null
          : post(`credits/recurring/${random.pick(recurring)}/cancel`, { at: random.pick(["now", "period_end"]) }),
      async (userId) => (random.chance(0.1) ? post("erase-person", { distinctId: userId }) : null),
    ];
    const paid: string[] = [];
    const seconds = () => Math.floor(clock.ms / 1_000);
    operations.push(
      async (userId) => {
        const name = `pi_${n}`;
        paid.push(name);
        const bought = { client_reference_id: userId, payment_intent: name, metadata: { pack: "Two" } };
        await deliver(eventOf("checkout.session.completed", seconds(), session(`cs_${n}`, bought)));
      },
      async () => {
        if (paid.length === 0) return;
        const name = random.pick(paid);
        const [amount, back] = [random.integer(1, 999), random.integer(0, 999)];
        if (random.chance(0.5)) {
          await deliver(eventOf("charge.refunded", seconds(), charge(`ch_${name}`, name, amount)));
          return;
        }
        const type = random.pick(["funds_withdrawn", "funds_reinstated"] as const);
        const moved = type === "funds_withdrawn" ? [-amount] : [-amount, Math.min(back, amount)];
        const about = dispute(`dp_${name}`, `ch_${name}`, name, amount, moved);
        await deliver(eventOf(`charge.dispute.${type}`, seconds(), about));
      },
    );
    const statementIds = new Map<string, string>();
    const check = async () => {
      expect(await runPart(makeStatements, makeAdminCtx(clock))).toEqual([]);
      const rows = await entriesOf(app.environments.live.id);
      let before: Map<string, LineAmounts> | null = null;
      for (const [month, statementId] of statementIds) {
        const { results } = await env.DB.prepare(
          "SELECT unit, pack_id AS packId, amounts FROM statement_lines WHERE statement_id = ?",
        )
          .bind(statementId)
          .all<{ unit: string; packId: string; amounts: string }>();
        const lines = new Map(
          results.map((row) => [`${row.unit} ${row.packId}`, readAmounts(JSON.parse(row.amounts))]),
        );
        for (const [name, line] of lines) {
          expect(isBalanced(line), `${month} ${name}`).toBe(true);
          if (COLUMNS.every((column) => line[column] === 0n)) lines.delete(name);
          if (before !== null) expect(line.opening, `${month} ${name}`).toBe(before.get(name)?.closing ?? 0n);
        }
        expect(new Map([...lines].sort()), month).toEqual(new Map([...sumsOf(rows, ...spanOf(month))].sort()));
        before = lines;
      }
    };
    const first = clock.ms;
    const requestStatements = async () => {
      for (let ms = first; monthOf(ms) < monthOf(clock.ms - HOUR_MS); ms = spanOf(monthOf(ms))[1]) {
        const month = monthOf(ms);
        if (statementIds.has(month)) continue;
        const { body, status } = await admin(`apps/${app.appId}/statements`, { mode: "live", month });
        expect(status, JSON.stringify(body)).toBe(200);
        statementIds.set(month, body.statementId);
      }
    };
    const operate = async (advanceMax: number) => {
      await random.pick(operations)(random.pick(users));
      if (random.chance(0.4)) clock.advance(random.integer(1, advanceMax));
      n++;
    };
    while (n < OPERATIONS) {
      await operate(4 * DAY_MS);
      await requestStatements();
      if (random.chance(0.05)) await check();
    }
    await check();
    // The overview of the first seven days of a month.
    const [, monthMs] = spanOf(monthOf(clock.ms));
    clock.ms = monthMs;
    // An isolate keeps a limited number of notes for the figures. This stores those of other test files.
    await flushActivity(bound());
    while (clock.ms < monthMs + 6 * DAY_MS) await operate(DAY_MS);
    await requestStatements();
    await check();
    await flushActivity(bound());
    const { read } = await openDashboard(app, clock);
    const { "Outstanding at the start": start = {} } = readEquation((await read("overview?days=7")).text);
    const { results } = await env.DB.prepare(
      "SELECT unit, sum(amounts ->> 'closing') AS minor FROM statement_lines WHERE statement_id = ? GROUP BY unit",
    )
      .bind(statementIds.get(monthOf(monthMs - 1)))
      .all<{ unit: "tokens" | "cents"; minor: number }>();
    const closing = results.map(({ unit, minor }) => [unit, minor / MINOR_A_UNIT[unit]]);
    expect({ tokens: 0, cents: 0, ...start }).toEqual({ tokens: 0, cents: 0, ...Object.fromEntries(closing) });
    expect(statementIds.size).toBeGreaterThan(1);
    const causes = new Set((await entriesOf(app.environments.live.id)).map(({ cause }) => cause));
    console.info(`${statementIds.size} months, causes: ${[...causes].join(", ")}`);
  });
});
