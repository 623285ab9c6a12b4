import type { LedgerRow } from "../books/credits/history.ts";
import type { ShownBalance } from "../books/credits/read-balance.ts";
import { entriesBefore, expiriesBefore } from "../books/credits/search-ledger.ts";
import type { RecurringOutput } from "../books/recurring/recurring.ts";
import { listEvents, type ShownEvent } from "../books/usage/list-events.ts";
import { describeReservations } from "../books/usage/read-reservation.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import type { AuditEntry } from "../catalog/audit-page.ts";
import { namesOfKeys } from "../catalog/keys.ts";
import { searchAudit } from "../catalog/search-audit.ts";
import { readRejectionsOfUser } from "../db/rejections.ts";
import { type PaymentOutput, paymentsBefore } from "../payments/payment-lists.ts";
import type { SystemCtx, TenantCtx } from "../runtime.ts";

/** How many rows a page reads of each source, and how many items it shows. */
const READ_MAX = 50;
const SHOWN_ITEMS_MAX = 25;
/** How many of the newest administrative actions about a user are read. */
export const TIMELINE_ACTIONS_MAX = 100;

/** Something that happened to a user, with who did it if that is known. */
export type TimelineItem = { readonly atMs: number; readonly by?: string | undefined } & (
  | {
      readonly kind: "entries";
      /** The ledger entries of one change. */
      readonly rows: readonly [LedgerRow, ...LedgerRow[]];
      /** The usage of their reservation. */
      readonly asked?: { readonly event: string; readonly model: string | null } | undefined;
      readonly payment?: PaymentOutput | undefined;
    }
  | { readonly kind: "event"; readonly event: ShownEvent }
  | { readonly kind: "expiry"; readonly balance: ShownBalance }
  | { readonly kind: "rejection"; readonly rejection: Awaited<ReturnType<typeof readRejectionsOfUser>>[number] }
  | { readonly kind: "payment"; readonly payment: PaymentOutput }
  | { readonly kind: "recurring"; readonly grant: RecurringOutput }
  | { readonly kind: "action"; readonly auditEntry: AuditEntry }
);

export interface TimelinePage {
  readonly items: readonly TimelineItem[];
  /** The moment before which the next page begins. Null on the last page. */
  readonly olderMs: number | null;
  readonly isFirst: boolean;
  /** Whether all administrative actions about the user were read. */
  readonly hasAllActions: boolean;
}

interface TimelineUser {
  readonly userId: string;
  /** Null for the newest page. */
  readonly beforeMs: number | null;
  readonly recurring: readonly RecurringOutput[];
}

/**
 * Returns what happened to a user before a moment, newest first. The read rows of each source reach back to a different moment.
 * The page ends at the latest of these moments, so that no item is missing on it. It has only the rejections that are still stored.
 */
export async function readTimeline(
  root: SystemCtx,
  ctx: TenantCtx,
  { userId, beforeMs: before, recurring }: TimelineUser,
): Promise<TimelinePage> {
  const { appId, mode } = ctx.environment;
  const beforeMs = before ?? Number.MAX_SAFE_INTEGER;
  const about = { by: undefined, action: undefined, target: undefined, user: { mode, userId } };
  const [rows, { events, nextCursor }, expired, rejections, audit] = await Promise.all([
    entriesBefore(ctx, userId, before, READ_MAX),
    listEvents(ctx, { userId, limit: READ_MAX, ...(before === null ? {} : { to: before }) }, false),
    expiriesBefore(ctx, userId, beforeMs, READ_MAX),
    readRejectionsOfUser(ctx, userId),
    searchAudit(root, appId, about, { limit: TIMELINE_ACTIONS_MAX }),
  ]);
  const balanceIds = rows.filter(({ cause }) => cause.startsWith("payment")).map(({ balanceId }) => balanceId);
  const reservationIds = rows.map(({ reservationId }) => reservationId).filter((id) => id !== null);
  const keyIds = rows.map(({ writtenBy }) => writtenBy).filter((by) => by.startsWith("key_"));
  const [reservations, keyNames, { ofBalances, ungranted }] = await Promise.all([
    describeReservations(ctx, reservationIds),
    namesOfKeys(ctx, [...new Set(keyIds)]),
    paymentsBefore(ctx, { userId, balanceIds, beforeMs, limit: READ_MAX }),
  ]);
  const actions = await nameActors(root)(audit.entries);
  const actors = new Map(actions.flatMap((action) => seqsOfAction(action).map((seq) => [seq, action.by] as const)));
  const creators = new Map(actions.map(({ action, target, by }) => [`${action} ${target}`, by]));
  const writerOf = ({ writtenBy }: LedgerRow) => keyNames.get(writtenBy) ?? writtenBy;
  const writers = new Map(rows.map((row) => [row.eventId, writerOf(row)]));
  const paymentsByBalance = new Map(
    ofBalances.flatMap((payment) => payment.grants.map(({ balanceId }) => [balanceId, payment] as const)),
  );
  const items: readonly TimelineItem[] = [
    ...entriesOfChanges(rows).map((group) => {
      const [first] = group;
      const { seq, occurredAtMs, reservationId, balanceId } = first;
      return {
        ...{ kind: "entries" as const, atMs: occurredAtMs, rows: group, by: actors.get(seq) ?? writerOf(first) },
        ...{ asked: reservations.get(reservationId ?? ""), payment: paymentsByBalance.get(balanceId) },
      };
    }),
    ...events.map((event) => ({
      ...{ kind: "event" as const, atMs: Date.parse(event.occurredAt), event, by: writers.get(event.eventId) },
    })),
    ...expired.map((balance) => ({ kind: "expiry" as const, atMs: Date.parse(balance.expiresAt ?? ""), balance })),
    ...rejections.map((rejection) => ({ kind: "rejection" as const, atMs: Date.parse(rejection.lastAt), rejection })),
    ...ungranted.map((payment) => ({ kind: "payment" as const, atMs: Date.parse(payment.createdAt), payment })),
    ...recurring.map((grant) => ({
      ...{ kind: "recurring" as const, atMs: Date.parse(grant.createdAt), grant },
      by: creators.get(`recurring.created ${grant.recurringId}`),
    })),
    ...audit.entries
      .filter((entry) => seqsOfAction(entry).length === 0 && entry.action !== "recurring.created")
      .map((entry) => ({ kind: "action" as const, atMs: Date.parse(entry.at), auditEntry: entry, by: entry.by })),
  ];
  const ends = [
    rows.length < READ_MAX ? undefined : rows.at(-1)?.occurredAtMs,
    nextCursor === null ? undefined : Date.parse(events.at(-1)?.occurredAt ?? ""),
    expired.length < READ_MAX ? undefined : Date.parse(expired.at(-1)?.expiresAt ?? ""),
    ungranted.length < READ_MAX ? undefined : Date.parse(ungranted.at(-1)?.createdAt ?? ""),
  ].filter((end) => end !== undefined);
  const page = pageOfItems(
    items.filter(({ atMs }) => atMs < beforeMs),
    ends,
  );
  return { ...page, isFirst: before === null, hasAllActions: audit.nextCursor === null };
}

/** Returns the items that no source cuts off, newest first, and where the next page begins. */
function pageOfItems(items: readonly TimelineItem[], ends: readonly number[]) {
  const sorted = items.toSorted((a, b) => b.atMs - a.atMs);
  const endMs = Math.max(...ends, sorted[SHOWN_ITEMS_MAX]?.atMs ?? Number.NEGATIVE_INFINITY);
  if (endMs === Number.NEGATIVE_INFINITY) return { items: sorted, olderMs: null };
  const newerItems = sorted.filter(({ atMs }) => atMs > endMs);
  // If all items have the same moment, the page has those that were read.
  if (newerItems.length === 0) return { items: sorted.filter(({ atMs }) => atMs >= endMs), olderMs: endMs };
  return { items: newerItems, olderMs: endMs + 1 };
}

/** Groups the entries of each change. Usage events are left out: the list of events also has the quantities that nobody paid. */
function entriesOfChanges(rows: readonly LedgerRow[]): (readonly [LedgerRow, ...LedgerRow[]])[] {
  const groups = Map.groupBy(
    rows.filter(({ cause }) => cause !== "usage"),
    ({ cause, occurredAtMs, reservationId, note, writtenBy, packId }) =>
      JSON.stringify([cause, occurredAtMs, reservationId, note, writtenBy, packId]),
  );
  return [...groups.values()].flatMap(([first, ...others]) => (first === undefined ? [] : [[first, ...others]]));
}

/** Returns the numbers of the ledger entries of an administrative action. */
function seqsOfAction({ details: { seq, entries } }: AuditEntry): readonly number[] {
  const numbers = Array.isArray(entries) ? entries.map((entry: { readonly seq?: unknown }) => entry.seq) : [seq];
  return numbers.filter((number) => typeof number === "number");
}
