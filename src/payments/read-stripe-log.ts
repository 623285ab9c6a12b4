import { and, desc, eq, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps.ts";
import { asInteger, boundLimit, drizzle, fields, query, type RowOf, type ValueOf } from "../db/query.ts";
import { stripeLog } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { Mode, SystemCtx } from "../runtime.ts";
import { OUTCOMES, type PaymentOutcome } from "./outcomes.ts";
import type { LogReason } from "./reasons.ts";

export interface ListStripeEventsOutput {
  readonly events: {
    readonly eventId: string;
    readonly type: string;
    readonly at: string;
    readonly outcome: PaymentOutcome;
    readonly reason: LogReason | null;
    readonly objectId: string | null;
    readonly asked: { readonly pack: string | null; readonly user: string | null } | null;
    readonly hint: string | null;
    readonly paymentKey: string | null;
  }[];
  readonly nextCursor: string | null;
}

export interface ListStripeEventsInput {
  readonly mode: Mode;
  readonly limit: number;
  readonly outcome?: PaymentOutcome | undefined;
  readonly cursor?: string | undefined;
}

const logFields = () =>
  fields(
    stripeLog,
    ...([
      "eventId",
      "type",
      "atMs",
      "outcome",
      "reason",
      "objectId",
      "requestedPack",
      "requestedUser",
      "hint",
    ] as const),
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
const selectStripeEventsPage = query((value: ValueOf<StripeEventsPage>) => {
  const { environmentId, outcome, atMs, eventId } = stripeLog;
  return drizzle
    .select(logFields())
    .from(sql`${stripeLog} INDEXED BY stripe_log_at`)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        eq(outcome, value("outcome")),
        sql`(${atMs}, ${eventId}) < (${asInteger(value("beforeMs"))}, ${value("beforeId")})`,
      ),
    )
    .orderBy(desc(atMs), desc(eventId))
    .limit(boundLimit(value("limit")));
});

/** Returns the position of an event: its time, its outcome and its id. */
const positionOf = ({ atMs, outcome, eventId }: StripeEventRow): string =>
  `${atMs} ${OUTCOMES.indexOf(outcome)} ${eventId}`;

/** Returns the position after which a page of one outcome begins. */
function beforeOf(position: string | null, outcome: PaymentOutcome): Pick<StripeEventsPage, "beforeMs" | "beforeId"> {
  if (position === null) return { beforeMs: Number.MAX_SAFE_INTEGER, beforeId: "" };
  const [at = "", after = "", ...id] = position.split(" ");
  const later = OUTCOMES.indexOf(outcome) - Number(after);
  return { beforeMs: Number(at) + (later > 0 ? 1 : 0), beforeId: later === 0 ? id.join(" ") : "" };
}

/** Returns the log of Stripe's events, newest first (S5). Throws `not_found`. */
export async function listStripeEvents(
  root: SystemCtx,
  appId: string,
  { mode, outcome, limit, cursor }: ListStripeEventsInput,
): Promise<ListStripeEventsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const scope = ["stripe_log", environmentId, outcome ?? ""];
  const position = cursor === undefined ? null : decodeTextCursor(cursor, scope);
  if (cursor !== undefined && position === null) throw invalidCursor();
  const outcomes = outcome === undefined ? OUTCOMES : [outcome];
  const found = await batch(
    root.db,
    outcomes.map((listed) =>
      selectStripeEventsPage({ environmentId, outcome: listed, ...beforeOf(position, listed), limit: limit + 1 }),
    ),
  );
  const rows = found.flat().toSorted((a, b) => b.atMs - a.atMs);
  const { page, last } = cutPage(rows, limit);
  return {
    events: page.map(presentStripeEvent),
    nextCursor: last === undefined ? null : encodeTextCursor(positionOf(last), scope),
  };
}

const presentStripeEvent = ({ atMs, reason, requestedPack: pack, requestedUser: user, ...row }: StripeEventRow) => ({
  ...row,
  at: iso(atMs),
  // Only `logStatement` writes rows.
  reason: reason as LogReason | null,
  asked: pack === null && user === null ? null : { pack, user },
});
