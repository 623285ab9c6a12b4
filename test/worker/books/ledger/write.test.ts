import { env } from "cloudflare:workers";
import { eq } from "drizzle-orm";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { revokeBalance } from "../../../../src/books/credits/revoke.ts";
import type { User } from "../../../../src/books/ledger/account.ts";
import { replay, writeAll } from "../../../../src/books/ledger/decision.ts";
import type { Hold, HoldLeg } from "../../../../src/books/ledger/hold.ts";
import type { AccountAtRead } from "../../../../src/books/ledger/read-account.ts";
import { settleHold } from "../../../../src/books/ledger/settle.ts";
import { selectActive } from "../../../../src/books/ledger/spendable-balances.ts";
import { type UserWrite, writeForUser } from "../../../../src/books/ledger/write.ts";
import { drizzle, query, type ValueOf } from "../../../../src/db/query.ts";
import { environments } from "../../../../src/db/schema.ts";
import { PurserError, rejectionIn } from "../../../../src/errors.ts";
import type { TenantCtx } from "../../../../src/runtime.ts";
import { FAULTS, faultyD1 } from "../../../support/faulty-d1.ts";
import { hookedD1 } from "../../../support/hooked-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { makeSpender, type Spender, wallet } from "../../../support/spender.ts";
import { makeCtx } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

const spenderCtx = (spender: Spender, d1: D1Database = env.DB): TenantCtx =>
  makeCtx(spender.app.environments.live, spender.clock, d1);

/** A user with 6 of 10 cents left. The other 4 are held by a reservation that is due. */
async function overdue(): Promise<Spender> {
  const spender = await makeSpender([wallet]);
  await spender.reserve({ reservationId: "res_due", quantities: { cents: 4 } });
  spender.clock.advance(300_000);
  return spender;
}

const reasonsOf = async (spender: Spender) => (await spender.ledger()).map(({ reason }) => reason).reverse();
const rowsOf = async (table: "accounts" | "credit_ledger" | "reservations"): Promise<unknown> =>
  (await env.DB.prepare(`SELECT count(*) AS n FROM ${table}`).first<{ n: number }>())?.n;

/** Debits the first balance by a cent. */
const debit = ({ balanceIds: [balanceId = ""] }: Spender) => ({
  entries: [{ balanceId, deltaMinor: -1_000_000, kind: "adjustment" } as const],
});

/** An open reservation that holds some steps. */
const holdOf = (spender: Spender, amountMinor: number) => ({
  id: "res_open",
  reservationNumber: 1,
  legs: [
    { balanceId: spender.balanceIds[0] ?? "", packId: "", unit: "cents", amountMinor, remainingMinor: 0 } as HoldLeg,
  ],
  owed: [],
  revocations: [],
});

it.each([
  ["lacks the return of a hold", (hold: Hold) => ({ ...hold, legs: [] }), "guard_settlement"],
  ["returns too little", (hold: Hold) => hold, "credit_ledger_returns_by_settlement"],
])("a settlement is not written if it %s", async (_, flawed, constraint) => {
  const spender = await makeSpender([wallet]);
  await spender.reserve({ reservationId: "res_open", quantities: { cents: 4 } });
  const settlement = settleHold(flawed(holdOf(spender, 1)), { state: "released" });
  const ctx = spenderCtx(spender);
  const written = writeForUser(ctx, {
    user: { userId: spender.userId },
    read: () => [],
    decide: () => writeAll([], () => "written", { settles: settlement }),
  });
  await expect(written).rejects.toThrow(constraint);
  expect(await reasonsOf(spender)).toEqual(["grant", "reservation_held"]);
});

const refused = () => new PurserError("forbidden", "as the test wants it");
/** Violates a CHECK, whatever the row holds. */
const exceedQuota = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .update(environments)
    .set({ testBalanceCount: 6, testBalanceQuota: 5 })
    .where(eq(environments.id, value("environmentId"))),
);

type Verb = Omit<UserWrite<[], string>, "user" | "nonce" | "read">;
/** Every possible end of a verb. */
const ENDS: Readonly<Record<string, (spender: Spender) => Verb>> = {
  write: (spender) => ({ decide: () => writeAll([], () => "written", debit(spender)) }),
  replay: () => ({ decide: () => replay("replayed") }),
  "refusal by the verb": () => ({
    decide: () => {
      throw refused();
    },
  }),
  "refusal by a constraint": (spender) => ({
    decide: (_, account) => writeAll([exceedQuota(account)], () => "written", debit(spender)),
    rejections: { environments_test_quota: refused },
  }),
};
const run = (ctx: TenantCtx, user: User, verb: Verb): Promise<string | null> =>
  writeForUser(ctx, { user, read: () => [], ...verb }).catch((error: unknown) => {
    const rejection = rejectionIn(error);
    if (rejection === null) throw error;
    return rejection.code;
  });

describe.each([
  { end: "write", answer: "written", left: 9, entries: ["reservation_expired", "admin_adjust"] },
  { end: "replay", answer: "replayed", left: 10, entries: ["reservation_expired"] },
  { end: "refusal by the verb", answer: "forbidden", left: 10, entries: ["reservation_expired"] },
  { end: "refusal by a constraint", answer: "forbidden", left: 10, entries: ["reservation_expired"] },
])("a $end", ({ end, answer, left, entries }) => {
  const verbOf = (spender: Spender): Verb => ENDS[end]?.(spender) ?? expect.unreachable("there is such an end");
  const expectReturned = async (spender: Spender) => {
    expect(await spender.remaining()).toEqual([left]);
    expect(await reasonsOf(spender)).toEqual(["grant", "reservation_held", ...entries]);
  };

  it("returns the user's due holds, by whichever id the user is named", async () => {
    const ways: readonly ((spender: Spender) => User | Promise<User>)[] = [
      ({ userId }) => ({ userId }),
      () => ({ reservationId: "res_due", forms: '["res_due"]' }),
      ({ balanceIds }) => ({ balanceId: balanceIds[0] ?? "" }),
      async ({ userId }) => {
        const row = await env.DB.prepare("SELECT id FROM accounts WHERE user_id = ?").bind(userId).first();
        return { accountId: Number(row?.id) };
      },
    ];
    for (const nameOf of ways) {
      const spender = await overdue();
      expect(await run(spenderCtx(spender), await nameOf(spender), verbOf(spender))).toBe(answer);
      await expectReturned(spender);
    }
  });

  it("does not return holds that are not due, to the millisecond", async () => {
    const spender = await overdue();
    spender.clock.advance(-1);
    expect(await run(spenderCtx(spender), { userId: spender.userId }, verbOf(spender))).toBe(answer);
    expect(await reasonsOf(spender)).not.toContain("reservation_expired");
  });

  it("returns due holds once if another writer returns them between its trips", async () => {
    const trips = end === "refusal by a constraint" ? [2, 3] : [2];
    for (const at of trips) {
      const spender = await overdue();
      const other = async (trip: number) => {
        if (trip === at) await spender.post("/api/v1/usage/reservations/res_due/release");
      };
      const ctx = spenderCtx(spender, hookedD1(env.DB, other));
      expect(await run(ctx, { userId: spender.userId }, verbOf(spender))).toBe(answer);
      await expectReturned(spender);
    }
  });

  it("returns due holds once when ten race", async () => {
    const spender = await overdue();
    const user = { userId: spender.userId };
    const answers = await Promise.all(
      Array.from({ length: 10 }, () => run(spenderCtx(spender), user, verbOf(spender))),
    );
    expect(answers).toEqual(Array(10).fill(answer));
    const reasons = await reasonsOf(spender);
    expect(reasons.filter((reason) => reason === "reservation_expired")).toHaveLength(1);
    expect(await spender.remaining()).toEqual([end === "write" ? 0 : 10]);
  });

  it("returns due holds once, or answers 503 without any effect, whichever trip fails", async () => {
    const trips = end === "refusal by a constraint" ? 3 : 2;
    for (const fault of FAULTS) {
      for (let at = 1; at <= trips; at++) {
        const spender = await overdue();
        const faulty = faultyD1(env.DB);
        faulty.plan({ fault, at });
        const outcome = await run(spenderCtx(spender, faulty.d1), { userId: spender.userId }, verbOf(spender));
        expect(faulty.trips(), `${fault} at ${at}`).toBeGreaterThanOrEqual(at);
        if (fault === "overloaded") {
          expect(outcome).toBe("temporarily_unavailable");
          expect(await reasonsOf(spender)).toEqual(["grant", "reservation_held"]);
        } else if (end === "write" && fault === "after" && at === 2) {
          // This verb has no id by which it recognises its own write, so it writes twice. The return is written once.
          expect(await reasonsOf(spender)).toEqual(["grant", "reservation_held", ...entries, "admin_adjust"]);
        } else {
          expect(outcome).toBe(answer);
          await expectReturned(spender);
        }
      }
    }
  });
});

it("a conflict is decided again, on the state and at the time of the new attempt", async () => {
  const spender = await makeSpender([wallet]);
  const { userId, clock } = spender;
  const startMs = clock.ms;
  const other = async (trip: number) => {
    clock.advance(10);
    if (trip === 2) await spender.spend("other", { quantities: { cents: 8 } });
  };
  const ctx = spenderCtx(spender, hookedD1(env.DB, other));
  const seen: unknown[] = [];
  const answer = await writeForUser(ctx, {
    user: { userId },
    read: (atMs) => [selectActive(ctx, { userId }, { nowMs: atMs })],
    decide: ([[balance]], account) => {
      const remaining = Number(balance?.remainingMinor);
      seen.push([remaining, account.nowMs - startMs]);
      const entry = {
        balanceId: String(balance?.id),
        deltaMinor: -remaining,
        kind: "adjustment",
      } as const;
      return writeAll([], () => remaining, { entries: [entry] });
    },
  });
  expect(seen).toEqual([
    [10_000_000, 0],
    [2_000_000, 20],
  ]);
  expect(answer).toBe(2_000_000);
  expect((await spender.ledger()).map(({ delta }) => delta)).toEqual([-2, -8, 10]);
});

it("a conflict does not include a constraint that the verb treats as a rejection, nor an unknown one: both are thrown at once", async () => {
  const spender = await makeSpender([wallet]);
  const { userId } = spender;
  const decide = vi.fn((_: unknown, account: AccountAtRead) => writeAll([exceedQuota(account)], () => "written"));
  const verb = { user: { userId }, nonce: "abc", read: () => [], decide } as const;
  const of = (work: Promise<unknown>) => work.then(() => null).catch((error: unknown) => error);
  expect(
    await of(writeForUser(spenderCtx(spender), { ...verb, rejections: { environments_test_quota: refused } })),
  ).toEqual(refused());
  expect(decide).toHaveBeenCalledTimes(1);
  expect(String(await of(writeForUser(spenderCtx(spender), verb)))).toContain("environments_test_quota");
  expect(decide).toHaveBeenCalledTimes(2);
});

it("a conflict does not hide a bug in the verb, which is thrown unchanged and returns no hold", async () => {
  const spender = await overdue();
  const failWithBug = () => {
    throw new TypeError("a bug");
  };
  await expect(run(spenderCtx(spender), { userId: spender.userId }, { decide: failWithBug })).rejects.toThrow("a bug");
  expect(await reasonsOf(spender)).toEqual(["grant", "reservation_held"]);
});

it("an unknown user is null if it is named by an unknown or foreign reservation, balance or account, and nothing is written", async () => {
  const spender = await overdue();
  const stranger = await makeSpender([]);
  const row = await env.DB.prepare("SELECT id FROM accounts WHERE user_id = ?").bind(spender.userId).first();
  const balanceId = spender.balanceIds[0] ?? "";
  const users: readonly User[] = [
    { reservationId: "res_nobody", forms: '["res_nobody"]' },
    { balanceId: "crb_nobody" },
    { accountId: -1 },
    { reservationId: "res_due", forms: '["res_due"]' },
    { balanceId },
    { accountId: Number(row?.id) },
  ];
  stranger.clock.advance(300_000);
  const counts = async () => [await rowsOf("accounts"), await rowsOf("credit_ledger")];
  const before = await counts();
  const decide = vi.fn(() => writeAll([], () => "written", debit(spender)));
  for (const user of users) expect(await run(spenderCtx(stranger), user, { decide }), JSON.stringify(user)).toBeNull();
  expect(decide).not.toHaveBeenCalled();
  expect(await counts()).toEqual(before);
  // Another mode of the same application is another environment as well.
  const inTest = makeCtx(spender.app.environments.test, spender.clock);
  expect(await run(inTest, { balanceId }, { decide })).toBeNull();
});

it("an unknown user that is named by its id gets an account with the first write, only one when ten race, and none by a replay or a rejection", async () => {
  const spender = await makeSpender([]);
  const ctx = spenderCtx(spender);
  const accounts = async () =>
    (await env.DB.prepare("SELECT id FROM accounts WHERE user_id = ?").bind(spender.userId).all()).results;
  for (const end of ["replay", "refusal by the verb", "refusal by a constraint"]) {
    await run(ctx, { userId: spender.userId }, ENDS[end]?.(spender) ?? expect.unreachable(end));
    expect(await accounts(), end).toEqual([]);
  }
  const seen: (number | null)[] = [];
  const decide: Verb["decide"] = (_, account) => {
    seen.push(account.accountId);
    return writeAll([], () => "written");
  };
  await Promise.all(Array.from({ length: 10 }, () => run(ctx, { userId: spender.userId }, { decide })));
  const [account, ...others] = await accounts();
  expect(others).toEqual([]);
  expect(seen[0]).toBeNull();
  await run(ctx, { userId: spender.userId }, { decide });
  expect(seen.at(-1)).toBe(account?.id);
});

it("an unknown user that is named by its id gets one account in each environment", async () => {
  const spender = await makeSpender([wallet]);
  const inTest = makeCtx(spender.app.environments.test, spender.clock);
  const verb: Verb = { decide: () => writeAll([], () => "written") };
  await run(inTest, { userId: spender.userId }, verb);
  const { results } = await env.DB.prepare("SELECT environment_id AS id FROM accounts WHERE user_id = ? ORDER BY id")
    .bind(spender.userId)
    .all();
  const { live, test } = spender.app.environments;
  expect(results).toEqual([{ id: live.id }, { id: test.id }].toSorted((a, b) => a.id - b.id));
});

it("the time of an attempt is the same for everything that it returns, reverses, settles and marks, even if the clock jumps", async () => {
  const spender = await overdue();
  const { clock } = spender;
  const jumping: TenantCtx = {
    ...spenderCtx(spender),
    now: () => {
      clock.advance(1_000);
      return clock.ms;
    },
  };
  const balanceId = spender.balanceIds[0] ?? "";
  await revokeBalance(jumping, { balanceId });
  const balance = await env.DB.prepare("SELECT revoked_at_ms AS atMs FROM credit_balances WHERE id = ?")
    .bind(balanceId)
    .first();
  const entries = await env.DB.prepare(
    "SELECT reason, occurred_at_ms AS atMs FROM credit_ledger WHERE account_id = (SELECT account_id FROM credit_balances WHERE id = ?) ORDER BY seq DESC LIMIT 2",
  )
    .bind(balanceId)
    .all();
  const reservation = await env.DB.prepare(
    "SELECT settled_at_ms AS atMs FROM reservations WHERE environment_id = ? AND id = 'res_due'",
  )
    .bind(spender.app.environments.live.id)
    .first();
  const atMs = clock.ms;
  expect(entries.results).toEqual([
    { reason: "admin_adjust", atMs },
    { reason: "reservation_expired", atMs },
  ]);
  expect([balance, reservation]).toEqual([{ atMs }, { atMs }]);
});
