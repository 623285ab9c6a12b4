import { and, count, desc, eq, sql } from "drizzle-orm";
import { fromSteps, roundUp, type Unit } from "../books/amounts/amount.ts";
import { requireEnvironment } from "../catalog/apps.ts";
import { asInteger, boundLimit, computed, drizzle, fields, query, type RowOf, type ValueOf } from "../db/query.ts";
import { payments, type Steps, stripeLog } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalidCursor, PurserError } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { shareOfAccount } from "./carry.ts";
import type { SetCarryOutput } from "./change-carry.ts";
import { factsOf } from "./facts.ts";
import { moneyOf } from "./money.ts";
import { OUTCOMES, type PaymentOutcome } from "./outcomes.ts";
import type { LogReason, StandingReason } from "./reasons.ts";
import { selectOfBalances, selectPage, selectSums, selectUngranted } from "./select-payments.ts";
import { namesInOrder, shownKey } from "./state.ts";
import { carriesOf, selectCarries } from "./stored-payer.ts";
import { readEvents, readPayment, type StoredPayment, selectShownPayment } from "./stored-payment.ts";

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

export interface PaymentOutput {
  readonly paymentKey: string;
  readonly names: string[];
  readonly status: "granted" | "unmatched" | "waiting";
  readonly refunds: "none" | "part" | "whole";
  readonly isDisputed: boolean;
  readonly settledBy: "admin" | "stripe" | null;
  readonly reason: StandingReason | null;
  readonly userId: string | null;
  readonly currency: string | null;
  readonly captured: number;
  readonly refunded: number;
  readonly withheld: number;
  readonly invoice: {
    readonly bought: number;
    readonly returned: number;
    readonly carried: number;
    readonly share: number;
  } | null;
  readonly grants: {
    readonly balanceId: string;
    readonly packId: string;
    readonly unit: Unit;
    readonly initial: number;
    readonly taken: number;
    readonly short: number;
  }[];
  readonly events: {
    readonly eventId: string;
    readonly type: string;
    readonly at: string;
    readonly outcome: PaymentOutcome;
  }[];
  readonly createdAt: string;
}

export interface ListPaymentsOutput {
  readonly payments: PaymentOutput[];
  readonly nextCursor: string | null;
  readonly sums?:
    | { readonly currency: string; readonly captured: number; readonly refunded: number; readonly withheld: number }[]
    | undefined;
  readonly carry?: SetCarryOutput[] | undefined;
}

export interface ListPaymentsInput {
  readonly mode: Mode;
  readonly limit: number;
  readonly status?: "granted" | "unmatched" | "waiting" | undefined;
  readonly refunds?: "none" | "part" | "whole" | undefined;
  readonly isDisputed?: boolean | undefined;
  readonly settledBy?: "admin" | "stripe" | undefined;
  readonly userId?: string | undefined;
  readonly externalRef?: string | undefined;
  readonly cursor?: string | undefined;
}

export interface ListStripeEventsInput {
  readonly mode: Mode;
  readonly limit: number;
  readonly outcome?: PaymentOutcome | undefined;
  readonly cursor?: string | undefined;
}

/** Returns the payments of an environment, newest first. Throws `not_found`. */
export async function listPayments(
  root: SystemCtx,
  appId: string,
  { mode, limit, cursor, isDisputed, ...input }: ListPaymentsInput,
): Promise<ListPaymentsOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const { status = null, refunds = null, settledBy = null, userId = null, externalRef = null } = input;
  const disputed = isDisputed === undefined ? null : isDisputed ? 1 : 0;
  const filters = { environmentId, status, refunds, isDisputed: disputed, settledBy, userId, externalRef } as const;
  const scope = ["payments", JSON.stringify(filters)];
  const position = cursor === undefined ? null : decodeTextCursor(cursor, scope);
  if (cursor !== undefined && position === null) throw invalidCursor();
  const [beforeMs = "", beforeId = ""] = position?.split(" ") ?? [];
  const before = { beforeMs: beforeMs === "" ? Number.MAX_SAFE_INTEGER : Number(beforeMs), beforeId };
  const selectRows = selectPage({ ...filters, ...before, limit: limit + 1 });
  const isFirst = cursor === undefined;
  const [rows, sums, carries] = isFirst
    ? await batch(root.db, [selectRows, selectSums(filters), selectCarries({ environmentId, userId: userId ?? "" })])
    : [await all(root.db, selectRows), [], []];
  const { page, last } = cutPage(rows, limit);
  return {
    payments: page.map((row) => present(readPayment(row), readEvents(row))),
    // The statement leaves out payments without a currency.
    ...(isFirst ? { sums: sums.map((sum) => ({ ...sum, currency: sum.currency ?? "" })) } : {}),
    ...(isFirst && userId !== null ? { carry: carriesOf(carries) } : {}),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.createdAtMs} ${last.id}`, scope),
  };
}

/** Returns the payments that granted some balances, and a user's newest payments before a moment that granted nothing. */
export async function paymentsBefore(
  ctx: TenantCtx,
  { balanceIds, ...search }: { balanceIds: readonly string[]; userId: string; beforeMs: number; limit: number },
) {
  const environmentId = ctx.environment.id;
  const [granted, ungranted] = await batch(ctx.db, [
    selectOfBalances({ environmentId, balanceIds: JSON.stringify(balanceIds) }),
    selectUngranted({ environmentId, ...search }),
  ]);
  const show = (rows: typeof granted) => rows.map((row) => present(readPayment(row), readEvents(row)));
  return { ofBalances: show(granted), ungranted: show(ungranted) };
}

/** The pack and the quantity that an object at Stripe names. */
interface RequestedGrant {
  readonly objectId: string;
  /** A pack's id or name; for a line of an invoice, its price. */
  readonly pack: string | null;
  readonly quantity: string | null;
}

const selectLogOf = query((value: ValueOf<{ environmentId: number; eventIds: string }>) =>
  drizzle
    .select(fields(stripeLog, "eventId", "askedPack", "askedUser", "hint"))
    .from(stripeLog)
    .where(
      and(
        eq(stripeLog.environmentId, value("environmentId")),
        sql`${stripeLog.eventId} IN (SELECT value FROM json_each(${value("eventIds")}))`,
      ),
    ),
);

/** Returns the payment with this Stripe id, the grants that Stripe's objects request, and the log of its events. Throws `not_found`. */
export async function findPayment(root: SystemCtx, appId: string, mode: Mode, paymentKey: string) {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  const [row] = await all(root.db, selectShownPayment({ environmentId, names: JSON.stringify([paymentKey]) }));
  if (row === undefined) throw noPayment();
  const payment = readPayment(row);
  const shown = present(payment, readEvents(row));
  const eventIds = JSON.stringify(shown.events.map(({ eventId }) => eventId));
  const log = await all(root.db, selectLogOf({ environmentId, eventIds }));
  return { ...shown, asked: requestedGrants(payment.facts), log: new Map(log.map((entry) => [entry.eventId, entry])) };
}

function requestedGrants(facts: StoredPayment["facts"]): RequestedGrant[] {
  const singleGrants = [...factsOf(facts, "session"), ...factsOf(facts, "intent")];
  return [
    ...singleGrants.map(({ id, data: { pack, quantity } }) => ({ objectId: id, pack, quantity })),
    ...factsOf(facts, "invoice").flatMap(({ id, data }) =>
      data.lines.map(({ price, quantity }) => ({
        ...{ objectId: id, pack: price },
        quantity: quantity === null ? null : String(quantity),
      })),
    ),
  ];
}

export function noPayment(): PurserError {
  const message = "The application has no such payment in this mode. Use any of the payment's ids at Stripe.";
  return new PurserError("not_found", message, { param: "paymentKey" });
}

function present(payment: StoredPayment, events: ReturnType<typeof readEvents>): PaymentOutput {
  const { names, facts, grants, status, reason, createdAtMs, customerUser } = payment;
  const { currency, captured, refunded, withheld } = moneyOf(facts);
  const granting = [...factsOf(facts, "session"), ...factsOf(facts, "invoice"), ...factsOf(facts, "intent")];
  const named = granting.map(({ userId }) => userId);
  return {
    paymentKey: shownKey(names),
    names: [...namesInOrder(names)],
    status,
    refunds: refunded === 0n ? "none" : refunded >= captured ? "whole" : "part",
    isDisputed: withheld.numerator > 0n,
    settledBy:
      status !== "granted" || reason === "covered_by_credit" ? null : payment.settledBy === null ? "stripe" : "admin",
    reason,
    userId: grants[0]?.userId ?? named.find((userId) => userId !== null) ?? customerUser,
    currency,
    captured: Number(captured),
    refunded: Number(refunded),
    withheld: roundUp(withheld),
    invoice: presentInvoice(facts),
    grants: grants.map(({ balanceId, packId, unit, initialSteps, takenSteps, dueSteps }) => ({
      ...{ balanceId, packId, unit },
      initial: fromSteps(unit, initialSteps),
      taken: fromSteps(unit, takenSteps),
      short: fromSteps(unit, Math.max(0, dueSteps - takenSteps) as Steps),
    })),
    events: events.map(({ eventId, type, at, outcome }) => ({ eventId, type, at: iso(at * 1_000), outcome })),
    createdAt: iso(createdAtMs),
  };
}

/** Returns how the payment's invoice changed the carry of its customer (S6). Null if it has not. */
function presentInvoice(facts: StoredPayment["facts"]): PaymentOutput["invoice"] {
  const [account] = factsOf(facts, "account");
  if (account === undefined) return null;
  const { bought, returned, carried } = account.data;
  const { numerator, denominator } = shareOfAccount(account);
  return { bought, returned, carried, share: Number(numerator) / Number(denominator) };
}

/** The most unmatched payments that are counted. */
export const COUNTED_UNMATCHED_MAX = 100;

const selectUnmatched = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle.select(computed({ count: count(), oldestAtMs: sql<number | null>`min(${payments.createdAtMs})` })).from(sql`(
      SELECT * FROM ${payments}
      WHERE ${payments.environmentId} = ${value("environmentId")} AND ${payments.status} = 'unmatched'
      ORDER BY ${payments.createdAtMs}, ${payments.id} LIMIT ${COUNTED_UNMATCHED_MAX + 1}
    ) AS ${payments}`),
);

/** Returns the number of unmatched payments, at most one more than `COUNTED_UNMATCHED_MAX`, and the time of the oldest. */
export async function countUnmatched(ctx: TenantCtx): Promise<{ count: number; oldestAt: string | null }> {
  const [row] = await all(ctx.db, selectUnmatched({ environmentId: ctx.environment.id }));
  const oldestAtMs = row?.oldestAtMs ?? null;
  return { count: row?.count ?? 0, oldestAt: oldestAtMs === null ? null : iso(oldestAtMs) };
}

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

const presentStripeEvent = ({ atMs, reason, askedPack: pack, askedUser: user, ...row }: StripeEventRow) => ({
  ...row,
  at: iso(atMs),
  // Only `logStatement` writes rows.
  reason: reason as LogReason | null,
  asked: pack === null && user === null ? null : { pack, user },
});
