import { sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps/apps.ts";
import { asInteger, fields, query, type RowOf, read, type ValueOf } from "../db/query.ts";
import { stripeLog } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { SystemCtx } from "../runtime.ts";
import type { LogReason } from "./hints.ts";
import type { ListStripeEventsOutput } from "./responses.ts";
import { type ListStripeEventsInput, OUTCOMES } from "./schemas.ts";
import type { PaymentOutcome } from "./stored-payment.ts";

const logFields = () =>
  fields(
    stripeLog,
    ...(["eventId", "type", "atMs", "outcome", "reason", "objectId", "askedPack", "askedUser", "hint"] as const),
    "paymentKey",
  );
type StripeEventRow = RowOf<ReturnType<typeof logFields>>;

type StripeEventsPage = {
  environmentId: number;
  outcome: PaymentOutcome;
  beforeMs: number;
  beforeId: string;
  limit: number;
};
const selectStripeEventsPage = query((value: ValueOf<StripeEventsPage>) =>
  read(
    logFields(),
    (list) => sql`SELECT ${list} FROM ${stripeLog} INDEXED BY stripe_log_at
      WHERE ${stripeLog.environmentId} = ${value("environmentId")} AND ${stripeLog.outcome} = ${value("outcome")}
      AND (${stripeLog.atMs}, ${stripeLog.eventId}) < (${asInteger(value("beforeMs"))}, ${value("beforeId")})
      ORDER BY ${stripeLog.atMs} DESC, ${stripeLog.eventId} DESC LIMIT ${value("limit")}`,
  ),
);

/** The position of an event: by time, then by outcome and id. */
const positionOf = ({ atMs, outcome, eventId }: StripeEventRow): string =>
  `${atMs} ${OUTCOMES.indexOf(outcome)} ${eventId}`;

/** The start position of a page of one outcome. */
function beforeOf(position: string | null, outcome: PaymentOutcome): Pick<StripeEventsPage, "beforeMs" | "beforeId"> {
  if (position === null) return { beforeMs: Number.MAX_SAFE_INTEGER, beforeId: "" };
  const [at = "", after = "", ...id] = position.split(" ");
  const later = OUTCOMES.indexOf(outcome) - Number(after);
  return { beforeMs: Number(at) + (later > 0 ? 1 : 0), beforeId: later === 0 ? id.join(" ") : "" };
}

/** The log of Stripe's events, newest first (S5). Throws `not_found`. */
export async function listStripeEvents(
  root: SystemCtx,
  appId: string,
  { mode, outcome, limit, cursor }: ListStripeEventsInput,
): Promise<ListStripeEventsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const scope = ["stripe_log", environmentId, outcome ?? ""];
  const position = cursor === undefined ? null : decodeTextCursor(cursor, scope);
  if (cursor !== undefined && position === null) throw invalidCursor();
  const wanted = outcome === undefined ? OUTCOMES : [outcome];
  const found = await batch(
    root.db,
    wanted.map((each) =>
      selectStripeEventsPage({ environmentId, outcome: each, ...beforeOf(position, each), limit: limit + 1 }),
    ),
  );
  const rows = found.flat().toSorted((a, b) => b.atMs - a.atMs);
  const last = rows[limit - 1];
  return {
    events: rows.slice(0, limit).map(presentStripeEvent),
    nextCursor: rows.length > limit && last !== undefined ? encodeTextCursor(positionOf(last), scope) : null,
  };
}

const presentStripeEvent = ({ atMs, reason, askedPack: pack, askedUser: user, ...row }: StripeEventRow) => ({
  ...row,
  at: iso(atMs),
  // Only `logStatement` writes rows.
  reason: reason as LogReason | null,
  asked: pack === null && user === null ? null : { pack, user },
});
