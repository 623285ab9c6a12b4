import { all, fragment, nowMsSql, statement } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import type { TenantCtx } from "../../runtime.ts";
import { aboutAccount } from "../ledger/account.ts";
import { isToCharge } from "../ledger/hold.ts";
import type { ReservationsOutput } from "./responses.ts";
import type { ReservationStatus, ReservationsInput } from "./schemas.ts";
import { presentReservation, type ShownRow, shownColumns } from "./shown-reservation.ts";

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
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return {
    reservations: page.map((row) => presentReservation(userId, row)),
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

const newestFirst = fragment`ORDER BY created_at_ms DESC, id DESC LIMIT :limit`;

/** SQL: the ids of a page of one index, which has all that it needs. */
const idsOf = (account: string, index: string, condition: string) => fragment`
  SELECT * FROM (
    SELECT id, created_at_ms FROM reservations INDEXED BY ${index}
    WHERE account_id = ${account} AND ${condition} AND (created_at_ms, id) < (:beforeMs, :beforeId) ${newestFirst}
  )`;

const openIds = (account: string, condition: string) =>
  idsOf(account, "reservations_open", fragment`state = 'open'${condition}`);
const settledIds = (account: string, state: string) =>
  idsOf(account, "reservations_settled", fragment`state <> 'open' AND state = '${state}'`);

const isDue = fragment` AND expires_at_ms <= ${nowMsSql}`;

/** SQL: where the reservations of a status are found. One that is due counts as what it will be. */
const idsByStatus: Readonly<Record<ReservationStatus | "all", (account: string) => readonly string[]>> = {
  open: (account) => [openIds(account, fragment` AND expires_at_ms > ${nowMsSql}`)],
  released: (account) => [settledIds(account, "released")],
  committed: (account) => [openIds(account, `${isDue} AND ${isToCharge}`), settledIds(account, "committed")],
  expired: (account) => [openIds(account, `${isDue} AND NOT ${isToCharge}`), settledIds(account, "expired")],
  all: (account) => [
    openIds(account, ""),
    ...["committed", "released", "expired"].map((state) => settledIds(account, state)),
  ],
};

const pageOf = (status: ReservationStatus | "all") =>
  aboutAccount<Position & { limit: number; nowMs: number }, ShownRow>(
    (account) => statement`
      SELECT ${shownColumns}
      FROM (${idsByStatus[status](account).join(" UNION ALL ")} ${newestFirst}) AS page
      CROSS JOIN reservations ON reservations.environment_id = :environmentId AND reservations.id = page.id
      ORDER BY reservations.created_at_ms DESC, reservations.id DESC`,
  );

const selectPage = {
  open: pageOf("open"),
  released: pageOf("released"),
  committed: pageOf("committed"),
  expired: pageOf("expired"),
  all: pageOf("all"),
};
