import { and, eq, lte, sql } from "drizzle-orm";
import { cronIn, workOnEach } from "../../db/cron-work.ts";
import { clockOf } from "../../db/features.ts";
import { asInteger, computed, drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, environments, reservations } from "../../db/schema.ts";
import { all, type RowsOf, type Statement } from "../../db/sql.ts";
import { assert, invalid } from "../../errors.ts";
import { iso } from "../../lib/time.ts";
import type { CronCtx, CronPart, TenantCtx } from "../../runtime.ts";
import { writeReturning } from "../ledger/decision.ts";
import { settleDueHolds, writeForUser } from "../ledger/write.ts";
import {
  ofReservationKey,
  presentReservation,
  type ReservationKey,
  reservationClosed,
  reservationNotFound,
  selectReservation,
  selectShownReservation,
} from "./list-reservations.ts";
import type { ReservationOutput } from "./responses.ts";
import { EXPIRES_IN_SECONDS_MAX, type ExtendInput } from "./schemas.ts";

/**
 * Moves a reservation's end to the given number of seconds from now, and returns the reservation (U14). Throws
 * `reservation_not_found`, `reservation_closed` if it is settled or due, and `invalid_request` if the new end is earlier than the
 * current one or more than a day after the reservation's creation.
 */
export async function extendReservation(
  ctx: TenantCtx,
  reservationId: string,
  { expiresInSeconds }: ExtendInput,
): Promise<ReservationOutput> {
  const extended = await writeForUser(ctx, {
    user: { reservationId },
    read: () => [selectReservation(ctx, reservationId)],
    recall: ({ reservations }) => {
      const reservation = reservations.get(reservationId);
      return reservation === undefined ? null : [[reservation]];
    },
    decide: ([[reservation]], account) => {
      assert(reservation !== undefined, "the account was found by this reservation");
      if (reservation.state !== "open" || account.due.some((hold) => hold.id === reservationId)) {
        throw reservationClosed("The reservation is already committed, released or expired.");
      }
      const expiresAtMs = account.nowMs + expiresInSeconds * 1_000;
      checkEnd(reservation, expiresAtMs);
      const parts = {
        before: [moveEnd({ environmentId: account.environmentId, reservationId, expiresAtMs })],
        returning: selectShownReservation(ctx, reservationId, account.nowMs),
        changes: { entries: [], newReservation: { ...reservation, state: "open", expiresAtMs } as const },
      };
      return writeReturning(parts, ([row]) => {
        assert(row !== undefined, "the reservation that was extended is there");
        return presentReservation(row.userId, row);
      });
    },
  });
  if (extended === null) throw reservationNotFound();
  return extended;
}

// If it was settled or extended since the read, a trigger aborts the batch, because an end must not become earlier.
const moveEnd = query((value: ValueOf<ReservationKey & { expiresAtMs: number }>) =>
  drizzle
    .update(reservations)
    .set({ expiresAtMs: asInteger(value("expiresAtMs")) })
    .where(ofReservationKey(value)),
);

function checkEnd(before: { readonly createdAtMs: number; readonly expiresAtMs: number }, expiresAtMs: number): void {
  if (expiresAtMs < before.expiresAtMs) {
    throw invalid("expiresInSeconds", `must not end before ${iso(before.expiresAtMs)}, where the reservation ends now`);
  }
  const lastMs = before.createdAtMs + EXPIRES_IN_SECONDS_MAX * 1_000;
  if (expiresAtMs > lastMs) {
    throw invalid("expiresInSeconds", `must end by ${iso(lastMs)}, a day after the reservation was made`);
  }
}

/** The usual queries to settle a user's holds, including their messages. */
const HOLD_QUERIES_A_USER = 12;
const USERS_A_RUN_MAX = 250;

/**
 * Returns or charges the due holds of all applications, user by user, each user in one or a few writes. A user's own write may have
 * settled them already. The next run continues where this one ends (U8). Returns the errors from finding or settling holds.
 */
export async function expireReservations(root: CronCtx): Promise<readonly unknown[]> {
  const { db, database, allowance } = root;
  const due = await all(db, selectUsersWithDueHolds({ nowMs: root.now(), limit: USERS_A_RUN_MAX }));
  return workOnEach(root, due, HOLD_QUERIES_A_USER, async ({ accountId, clock, ...row }) => {
    const ctx = cronIn(root, { ...row, database }, clock);
    while ((await settleDueHolds(ctx, { accountId })) && allowance.has(HOLD_QUERIES_A_USER));
  });
}

export const holdsPart: CronPart = {
  code: "holds_not_returned",
  weight: 8,
  queriesOfStep: HOLD_QUERIES_A_USER + 1,
  work: expireReservations,
};

/** Users with a due hold. It reads only the index of open reservations, in its order. */
const selectUsersWithDueHolds = query((value: ValueOf<{ nowMs: number; limit: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  const due = sql`SELECT DISTINCT ${accountId} FROM ${reservations} INDEXED BY reservations_open
    WHERE ${state} = 'open' AND ${expiresAtMs} <= ${value("nowMs")} ORDER BY ${accountId} LIMIT ${asInteger(value("limit"))}`;
  return drizzle
    .select({
      ...fields(accounts, { accountId: "id" }),
      ...fields(environments, "id", "appId", "mode"),
      ...computed({ clock: clockOf() }),
    })
    .from(sql`(${due}) AS ${reservations}`)
    .crossJoin(accounts)
    .crossJoin(environments)
    .where(and(eq(accounts.id, accountId), eq(environments.id, accounts.environmentId)));
});

const selectNextHoldEnd = query((value: ValueOf<{ environmentId: number; untilMs: number }>) => {
  const { accountId, state, expiresAtMs } = reservations;
  return drizzle
    .select(fields(reservations, { accountId: "accountId", momentMs: "expiresAtMs" }))
    .from(accounts)
    .crossJoin(sql`${reservations} INDEXED BY reservations_open`)
    .where(
      and(
        eq(accounts.environmentId, value("environmentId")),
        eq(accounts.isErased, 0),
        eq(accountId, accounts.id),
        sql`${state} = 'open'`,
        lte(expiresAtMs, value("untilMs")),
      ),
    )
    .orderBy(expiresAtMs, accountId)
    .limit(1);
});
export type NextHold = RowsOf<[ReturnType<typeof selectNextHoldEnd>]>[0][number];

/** The query for the user whose hold ends next in an environment, up to `untilMs`. Erasures release the holds of erased users. */
export const selectNextHold = (environmentId: number, untilMs: number): Statement<NextHold> =>
  selectNextHoldEnd({ environmentId, untilMs });
