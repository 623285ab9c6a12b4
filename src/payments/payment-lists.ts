import { and, count, eq, sql } from "drizzle-orm";
import { fromMinor, type Unit } from "../books/amounts/amount.ts";
import { roundUp } from "../books/amounts/fraction.ts";
import { requireEnvironment } from "../catalog/apps.ts";
import { computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { type Minor, payments, stripeLog } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { invalidCursor, PurserError } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { Mode, SystemCtx, TenantCtx } from "../runtime.ts";
import { shareOfAccount } from "./carry.ts";
import type { SetCarryOutput } from "./change-carry.ts";
import { filterFacts } from "./facts.ts";
import { deriveMoney } from "./money.ts";
import type { PaymentOutcome } from "./outcomes.ts";
import type { StatusReason } from "./reasons.ts";
import { selectOfBalances, selectPage, selectSums, selectUngranted } from "./select-payments.ts";
import { namesInOrder, shownKey } from "./state.ts";
import { parseCarries, selectCarries } from "./stored-payer.ts";
import { readEvents, readPayment, type StoredPayment, selectShownPayment } from "./stored-payment.ts";

export interface PaymentOutput {
  readonly paymentKey: string;
  readonly names: string[];
  readonly status: "granted" | "unmatched" | "waiting";
  readonly refunds: "none" | "part" | "whole";
  readonly isDisputed: boolean;
  readonly settledBy: "admin" | "stripe" | null;
  readonly reason: StatusReason | null;
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
    ...(isFirst && userId !== null ? { carry: parseCarries(carries) } : {}),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.createdAtMs} ${last.id}`, scope),
  };
}

/** Returns the newest payments of which a dispute withholds a part. */
export async function newestDisputed({ db, environment }: TenantCtx, limit: number): Promise<PaymentOutput[]> {
  const any = { status: null, refunds: null, settledBy: null, userId: null, externalRef: null };
  const position = { beforeMs: Number.MAX_SAFE_INTEGER, beforeId: "", limit };
  const rows = await all(db, selectPage({ environmentId: environment.id, ...any, isDisputed: 1, ...position }));
  return rows.map((row) => present(readPayment(row), readEvents(row)));
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
    .select(fields(stripeLog, "eventId", "requestedPack", "requestedUser", "hint"))
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
  const singleGrants = [...filterFacts(facts, "session"), ...filterFacts(facts, "intent")];
  return [
    ...singleGrants.map(({ id, data: { pack, quantity } }) => ({ objectId: id, pack, quantity })),
    ...filterFacts(facts, "invoice").flatMap(({ id, data }) =>
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
  const { currency, captured, refunded, withheld } = deriveMoney(facts);
  const granting = [
    ...filterFacts(facts, "session"),
    ...filterFacts(facts, "invoice"),
    ...filterFacts(facts, "intent"),
  ];
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
    grants: grants.map(({ balanceId, packId, unit, initialMinor, clawedBackMinor, dueMinor }) => ({
      ...{ balanceId, packId, unit },
      initial: fromMinor(unit, initialMinor),
      taken: fromMinor(unit, clawedBackMinor),
      short: fromMinor(unit, Math.max(0, dueMinor - clawedBackMinor) as Minor),
    })),
    events: events.map(({ eventId, type, at, outcome }) => ({ eventId, type, at: iso(at * 1_000), outcome })),
    createdAt: iso(createdAtMs),
  };
}

/** Returns how the payment's invoice changed the carry of its customer (S6). Null if it has not. */
function presentInvoice(facts: StoredPayment["facts"]): PaymentOutput["invoice"] {
  const [account] = filterFacts(facts, "account");
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
