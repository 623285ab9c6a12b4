import { env } from "cloudflare:workers";
import { afterAll, beforeEach, describe, expect, it, vi } from "vitest";
import { makeKeyId } from "../../../../src/auth/key-session.ts";
import { adjustBalance } from "../../../../src/books/credits/adjust.ts";
import { grantPack } from "../../../../src/books/credits/grant.ts";
import { refundCredits } from "../../../../src/books/credits/refund.ts";
import { revokeBalance } from "../../../../src/books/credits/revoke.ts";
import { sha256 } from "../../../../src/lib/encoding.ts";
import { countingD1 } from "../../../support/counting-d1.ts";
import { FAULTS, type FaultPlan, faultyD1 } from "../../../support/faulty-d1.ts";
import { expectLedgerInvariants } from "../../../support/invariants.ts";
import { Clock, makeApp, makeCtx, makePack } from "../../../support/world.ts";

afterAll(expectLedgerInvariants);

const NOTE = "Because Ana wrote to us";
const USER = "ana@example.com";
const items = [1, 2].map((amount) => ({ amountMinor: amount * 1_000_000, unit: "cents" }) as const);

/** An application with a user who has balances, and an administrator's context. */
async function makeAuditWorld(d1: D1Database = env.DB) {
  const clock = new Clock();
  const app = await makeApp();
  const packId = await makePack(app.appId, "Pack", items);
  const input = { userId: USER, packId, source: "purchase", externalRef: "order-1" } as const;
  const { output } = await grantPack(makeCtx(app.environments.test, clock), input);
  const ctx = { ...makeCtx(app.environments.test, clock, d1), caller: { kind: "admin", by: "eva" } as const };
  const entries = async () => {
    const { results } = await env.DB.prepare(
      `SELECT at_ms AS atMs, actor AS "by", action, target, details FROM admin_audit WHERE app_id = ? ORDER BY seq`,
    )
      .bind(app.appId)
      .all<{ atMs: number; by: string; action: string; target: string; details: string }>();
    return results.map((row) => ({ ...row, details: JSON.parse(row.details) }));
  };
  return { app, clock, ctx, packId, balanceId: output.balanceId, entries };
}
type AuditWorld = Awaited<ReturnType<typeof makeAuditWorld>>;

interface CreditAct {
  readonly action: string;
  /** The same request each time, so that a repeat is a replay. */
  readonly act: (world: Pick<AuditWorld, "ctx" | "packId" | "balanceId">) => Promise<unknown>;
  readonly target: (world: AuditWorld) => string;
  readonly details: (result: unknown, world: AuditWorld) => object;
  /** The same act, in a way that is rejected. */
  readonly refused: (world: AuditWorld) => Promise<unknown>;
}

const grantBy = ({ ctx, packId }: Pick<AuditWorld, "ctx" | "packId">) =>
  grantPack(ctx, { userId: USER, packId, externalRef: "dashboard:1", source: "manual", notes: NOTE });
const adjustBy = ({ ctx, balanceId }: Pick<AuditWorld, "ctx" | "balanceId">, delta: number, adjustmentId: string) =>
  adjustBalance(ctx, { balanceId, delta, note: NOTE, adjustmentId });

const refundBy = ({ ctx }: Pick<AuditWorld, "ctx">, externalRef: string) =>
  refundCredits(ctx, { userId: USER, externalRef, refundRef: "ref-1", share: { part: 1, of: 2 }, reason: NOTE });

const acts: readonly CreditAct[] = [
  {
    action: "credits.granted",
    act: grantBy,
    target: ({ packId }) => packId,
    details: (result) => {
      const { output } = result as Awaited<ReturnType<typeof grantPack>>;
      const entryOf = (at: number) => ({
        ...{ balanceId: output.balances[at]?.balanceId, unit: "cents", amount: at + 1, seq: 3 + at },
      });
      return { mode: "test", entries: [entryOf(0), entryOf(1)] };
    },
    refused: ({ ctx }) => grantBy({ ctx, packId: "cpk_none" }),
  },
  {
    action: "credits.adjusted",
    act: (world) => adjustBy(world, -0.5, "of ana"),
    target: ({ balanceId }) => balanceId,
    details: (_, { balanceId }) => ({ mode: "test", balanceId, unit: "cents", amount: -0.5, seq: 3 }),
    refused: (world) => adjustBy(world, -100, "too much"),
  },
  {
    action: "credits.revoked",
    act: ({ ctx, balanceId }) => revokeBalance(ctx, { balanceId, reason: NOTE }),
    target: ({ balanceId }) => balanceId,
    details: (_, { balanceId }) => ({ mode: "test", balanceId, unit: "cents", amount: -1, seq: 3 }),
    refused: ({ ctx }) => revokeBalance(ctx, { balanceId: "crb_none", reason: NOTE }),
  },
  {
    action: "credits.refunded",
    act: (world) => refundBy(world, "order-1"),
    target: ({ balanceId }) => balanceId,
    details: (result) => {
      const { output } = result as Awaited<ReturnType<typeof refundCredits>>;
      const entryOf = (at: number) => ({
        ...{ balanceId: output.balances[at]?.balanceId, unit: "cents", amount: -(at + 1) / 2, seq: 3 + at },
      });
      return { mode: "test", entries: [entryOf(0), entryOf(1)] };
    },
    refused: (world) => refundBy(world, "order-2"),
  },
];

// Retries do not wait.
beforeEach(() => {
  vi.spyOn(scheduler, "wait").mockResolvedValue();
});

describe.each(acts)("$action", ({ action, act, target, details, refused }) => {
  it("by the administrator is one entry, in the batch of its effect, without the user's id or notes", async () => {
    const { d1, spent } = countingD1(env.DB);
    const world = await makeAuditWorld(d1);
    world.clock.advance(1_000);
    const answer = await act(world);
    expect(spent().roundTrips).toBe(2);
    const entries = await world.entries();
    expect(entries).toEqual([
      { atMs: world.clock.ms, by: "eva", action, target: target(world), details: details(answer, world) },
    ]);
    for (const word of [USER, NOTE, "of ana", "dashboard:1", "order-1", "ref-1"])
      expect(JSON.stringify(entries)).not.toContain(word);
  });

  it("is not recorded if it is rejected, and not recorded again if it is repeated, even by five at once", async () => {
    const world = await makeAuditWorld();
    await expect(refused(world)).rejects.toThrow();
    expect(await world.entries()).toEqual([]);
    await Promise.all(Array.from({ length: 5 }, () => act(world)));
    await act(world);
    expect(await world.entries()).toHaveLength(1);
  });

  it("is one entry if it happened, and none if it did not, whichever trip fails", async () => {
    const underFault = async (plan: FaultPlan | null) => {
      const faulty = faultyD1(env.DB);
      const world = await makeAuditWorld(faulty.d1);
      faulty.plan(plan);
      const isDone = await act(world).then(
        () => true,
        () => false,
      );
      const trips = faulty.trips();
      faulty.plan(null);
      return { isDone, trips, rows: (await world.entries()).length };
    };
    const { trips } = await underFault(null);
    for (const fault of FAULTS) {
      for (let at = 1; at <= trips; at++) {
        const { isDone, rows } = await underFault({ fault, at });
        expect([isDone, rows], `${fault} at ${at}`).toEqual(fault === "overloaded" ? [false, 0] : [true, 1]);
        const lost = await underFault({ fault, at, persists: true });
        const hasHappened = fault === "after" && at === trips;
        expect([lost.isDone, lost.rows], `${fault} from ${at} on`).toEqual([false, hasHappened ? 1 : 0]);
      }
    }
  });

  it("by the application's own key is not in the audit", async () => {
    const world = await makeAuditWorld();
    await act({
      ...world,
      ctx: {
        ...world.ctx,
        caller: { kind: "secret", keyId: makeKeyId(await sha256(world.app.keys.sk_test)) } as never,
      },
    });
    expect(await world.entries()).toEqual([]);
  });
});
