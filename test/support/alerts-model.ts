import { DAY_MS } from "../../src/lib/time.ts";
/** A model of alerts and expiry notices (rules H5 and H6), computed from the ledger. It uses no SQL and none of the logic in `src`. */

export interface Entry {
  readonly user: string;
  readonly seq: number;
  readonly balanceId: string;
  readonly delta: number;
  readonly reason: string;
  readonly isRevoked: boolean;
  readonly reservationId: string | null;
}

export interface Issued {
  readonly id: string;
  readonly user: string;
  readonly unit: string;
  readonly pack: string;
  readonly initial: number;
  readonly grantedAt: number;
  readonly expiresAt: number;
}

export interface Alert {
  readonly id: string;
  readonly unit: string;
  /** The packs whose balances cover its event. */
  readonly packs: readonly string[];
  readonly below: { readonly amount?: number; readonly percent?: number };
}

type Balance = Issued & {
  total: number;
  remaining: number;
  revoked: boolean;
  /** Whether the cron has found that the balance expired. */
  isFound: boolean;
  readonly noticedDays: Set<number>;
};

/** Amounts are in minor units. `sinceMs` is when the endpoint was created and the days of notices were set. */
export function createAlertsModel(alerts: readonly Alert[], days: readonly number[], sinceMs: number) {
  const balances = new Map<string, Balance>();
  const lastSeqs = new Map<string, number>();
  const fired = new Set<string>();

  const balancesFor = (user: string, alert: Alert | null) =>
    [...balances.values()].filter(
      (b) => b.user === user && (alert === null || (b.unit === alert.unit && alert.packs.includes(b.pack))),
    );
  const totalOf = (b: Balance) => (b.revoked ? 0 : b.total);
  const thresholdOf = (alert: Alert | null, issued: number) =>
    alert?.below.percent === undefined
      ? (alert?.below.amount ?? 1)
      : Math.ceil(Number((alert.below.percent * issued).toFixed(6)) / 100);

  /** Calls `act`, which changes balances of the user and returns whether it raised one. Returns the alerts that fire. */
  const change = (user: string, nowMs: number, act: () => boolean): string[] => {
    // An alert is evaluated over the live balances, and again with the expired balances that the cron has not found yet.
    const views = [null, ...alerts].map((alert) => {
      const all = balancesFor(user, alert).filter((b) => !b.isFound && totalOf(b) > 0);
      const live = all.filter((b) => b.expiresAt > nowMs);
      const sides = [live, all].map((of) => ({
        of,
        before: of.reduce((sum, b) => sum + totalOf(b), 0),
        threshold: thresholdOf(
          alert,
          of.reduce((sum, b) => sum + b.initial, 0),
        ),
      }));
      return { alert, sides };
    });
    const isRaised = act();
    return views.flatMap(({ alert, sides }) => {
      const key = `${user} ${alert?.id ?? ""}`;
      const now = balancesFor(user, alert).filter((b) => !b.isFound && b.expiresAt > nowMs && totalOf(b) > 0);
      const left = now.reduce((sum, b) => sum + totalOf(b), 0);
      if (isRaised) {
        if (
          left > 0 &&
          left >=
            thresholdOf(
              alert,
              now.reduce((sum, b) => sum + b.initial, 0),
            )
        )
          fired.delete(key);
        return [];
      }
      const crossed = sides.find(({ of, before, threshold }) => {
        const after = of.filter((b) => !b.isFound).reduce((sum, b) => sum + totalOf(b), 0);
        return before >= threshold && after < threshold;
      });
      if (crossed === undefined || fired.has(key)) return [];
      fired.add(key);
      const seq = lastSeqs.get(user);
      return [
        alert === null ? `depleted ${user} ${seq}` : `low ${user} ${alert.id} ${left} of ${crossed.threshold} ${seq}`,
      ];
    });
  };

  return {
    /** The entries and the issued balances of one batch for a user. */
    batch(user: string, entries: readonly Entry[], issued: readonly Issued[], nowMs: number): string[] {
      if (entries.length === 0) return [];
      return change(user, nowMs, () => {
        for (const b of issued) {
          const fresh = { total: 0, remaining: 0, revoked: false, isFound: false, noticedDays: new Set<number>() };
          balances.set(b.id, { ...b, ...fresh });
        }
        let isRaised = false;
        for (const { balanceId, delta, reason, isRevoked, reservationId, seq } of entries) {
          const b = balances.get(balanceId);
          if (b === undefined) throw new Error(`The model has no balance ${balanceId}.`);
          b.remaining += delta;
          // Held credits count as the user's. Credits that return to a revoked balance do not.
          const isHold = reason.startsWith("reservation_") || (reason === "admin_adjust" && reservationId !== null);
          if (!isHold) {
            b.total += delta;
            isRaised ||= delta > 0;
          }
          b.revoked = isRevoked;
          lastSeqs.set(user, seq);
        }
        return isRaised;
      });
    },
    /** The expiries that a run of the cron finds. */
    cron(nowMs: number): string[] {
      const messages: string[] = [];
      for (const b of balances.values()) {
        const passed = days.filter((d) => b.expiresAt - d * DAY_MS <= nowMs && !b.noticedDays.has(d));
        const due = passed.filter((d) => b.expiresAt - d * DAY_MS >= Math.max(b.grantedAt, sinceMs));
        for (const d of passed) b.noticedDays.add(d);
        if (b.expiresAt > nowMs && due.length > 0 && !b.revoked && b.remaining > 0) {
          messages.push(`expiring ${b.user} ${b.id} ${b.remaining} in ${Math.min(...due)}`);
        }
      }
      const expired = [...balances.values()].filter((b) => !b.isFound && b.expiresAt <= nowMs);
      for (const b of expired)
        if (!b.revoked && b.remaining > 0) messages.push(`expired ${b.user} ${b.id} ${b.remaining}`);
      for (const user of new Set(expired.map((b) => b.user))) {
        messages.push(
          ...change(user, nowMs, () => {
            for (const b of expired) if (b.user === user) b.isFound = true;
            return false;
          }),
        );
      }
      return messages;
    },
  };
}
