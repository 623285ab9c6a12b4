import { and, desc, eq, gt, lte, not, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { drizzle, type ValueOf } from "../../db/query.ts";
import { reservations } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { accountQuery, type OfUser } from "../ledger/account.ts";
import { willBeCharged } from "../ledger/hold.ts";
import { presentReservation, reservationFields } from "./read-reservation.ts";
import type { ReservationsOutput } from "./responses.ts";
import type { ReservationStatus, ReservationsInput } from "./schemas.ts";

/**
 * A page of the user's reservations, newest first; of one status if it is given (U13). The cursor has the last one shown, so
 * new ones do not move pages. Reads all that are open, and of the others those of a page.
 */
export async function listReservations(ctx: TenantCtx, input: ReservationsInput): Promise<ReservationsOutput> {
  const { userId, status, limit, cursor } = input;
  const scope = ["reservations", ctx.environment.id, userId, status ?? ""];
  const before = cursor === undefined ? NEWEST : await readPosition(cursor, scope);
  const rows = await all(
    ctx.db,
    selectPage[status ?? "all"](ctx, { userId }, { ...before, limit: limit + 1, nowMs: ctx.now() }),
  );
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return {
    reservations: shown.map((row) => presentReservation(userId, row)),
    nextCursor: isMore ? await encodeTextCursor(`${last.createdAtMs} ${last.id}`, scope) : null,
  };
}

type Position = {
  readonly beforeMs: number;
  readonly beforeId: string;
};

const NEWEST: Position = { beforeMs: Number.MAX_SAFE_INTEGER, beforeId: "" };

async function readPosition(cursor: string, scope: readonly (string | number)[]): Promise<Position> {
  const text = await decodeTextCursor(cursor, scope);
  const [, beforeMs, beforeId] = /^(\d{1,15}) (res_.+)$/.exec(text ?? "") ?? [];
  if (beforeMs === undefined || beforeId === undefined) throw invalidCursor();
  return { beforeMs: Number(beforeMs), beforeId };
}

type Page = Position & { limit: number; nowMs: number };

/** The ids of a page of one index, which has all that it needs. */
function idsOf(value: ValueOf<Page>, account: SQL, index: SQL, condition: SQL | undefined): SQL {
  const { id, accountId, createdAtMs } = reservations;
  return sql`SELECT * FROM (
    SELECT ${id}, ${createdAtMs} FROM ${reservations} INDEXED BY ${index}
    WHERE ${accountId} = ${account} AND ${condition}
      AND (${createdAtMs}, ${id}) < (${value("beforeMs")}, ${value("beforeId")})
    ORDER BY ${createdAtMs} DESC, ${id} DESC LIMIT ${value("limit")}
  )`;
}

type Settled = Exclude<ReservationStatus, "open">;

/** Where the reservations of a status are found. One that is due counts as what it will be. */
function idsByStatus(status: ReservationStatus | "all", value: ValueOf<Page>, account: SQL): SQL[] {
  const { state, expiresAtMs } = reservations;
  // Each condition repeats that of its partial index.
  const open = (condition?: SQL) =>
    idsOf(value, account, sql`reservations_open`, and(sql`${state} = 'open'`, condition));
  const settled = (as: Settled) =>
    idsOf(value, account, sql`reservations_settled`, and(sql`${state} <> 'open'`, eq(state, as)));
  const isDue = lte(expiresAtMs, value("nowMs"));
  switch (status) {
    case "open":
      return [open(gt(expiresAtMs, value("nowMs")))];
    case "released":
      return [settled("released")];
    case "committed":
      return [open(and(isDue, willBeCharged())), settled("committed")];
    case "expired":
      return [open(and(isDue, not(willBeCharged()))), settled("expired")];
    case "all":
      return [open(), settled("committed"), settled("released"), settled("expired")];
  }
}

const page = alias(reservations, "page");

const pageOf = (status: ReservationStatus | "all") =>
  accountQuery((value: ValueOf<Page & OfUser>, account) => {
    const { environmentId, id, createdAtMs } = reservations;
    const ids = sql.join(idsByStatus(status, value, account), sql` UNION ALL `);
    return drizzle
      .select(reservationFields(value))
      .from(sql`(${ids} ORDER BY 2 DESC, 1 DESC LIMIT ${value("limit")}) AS ${page}`)
      .crossJoin(reservations)
      .where(and(eq(environmentId, value("environmentId")), eq(id, page.id)))
      .orderBy(desc(createdAtMs), desc(id));
  });

const selectPage = {
  open: pageOf("open"),
  released: pageOf("released"),
  committed: pageOf("committed"),
  expired: pageOf("expired"),
  all: pageOf("all"),
};
