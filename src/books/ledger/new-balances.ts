import { eq, sql } from "drizzle-orm";
import type { Pack } from "../../catalog/pack.ts";
import { countActivity, countOfPack } from "../../db/count-activity.ts";
import { asInteger, drizzle, fields, insertFrom, names, query, returning, type ValueOf } from "../../db/query.ts";
import { BALANCE_SOURCES, creditBalances, ENTRY_KINDS, environments, type Minor } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import { assert, invalid, PurserError } from "../../errors.ts";
import { DAY_MS } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { amountRule, toMinor, type Unit } from "../amounts/amount.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { authorOfWrite } from "./author.ts";
import { NEVER_MS } from "./balance.ts";
import {
  type Cause,
  changingCredits,
  type EntriesStatement,
  lastEntry,
  lastLedgerEntry,
  returningEntries,
} from "./insert-entries.ts";

/** The fields of one balance of a grant. */
export interface NewBalance {
  readonly id: string;
  /** 0 and an empty id for an open-amount pack. */
  readonly itemNumber: number;
  readonly packItemId: string;
  readonly unit: Unit;
  /** JSON list of match rules. */
  readonly matches: string;
  readonly priority: number;
  readonly amountMinor: Minor;
}

/** The common fields of all balances of a grant. */
export interface NewBalances {
  readonly packId: string;
  readonly packNumber: number;
  readonly packName: string;
  readonly source: keyof typeof BALANCE_SOURCES;
  readonly cause: Extract<Cause, "grant" | "recurring" | "payment">;
  readonly externalRef: string | null;
  readonly notes: string | null;
  readonly expiresAtMs: number;
  readonly balances: readonly NewBalance[];
}

/** The input of a grant, from any source. */
export interface GrantOfPack {
  readonly packId: string;
  readonly quantity?: number | null | undefined;
  readonly source: NewBalances["source"];
  readonly cause: NewBalances["cause"];
  readonly externalRef?: string | undefined;
  readonly notes?: string | undefined;
  /** Null for never. Absent: as the pack says. */
  readonly expiresAt?: number | null | undefined;
}

/** Returns the id of the balance at an index of a grant. Every attempt of a grant gets the same ids. */
export type BalanceIds = (index: number) => string;

/**
 * Returns the balances of a grant: one for each item, or one of `quantity` for an open-amount pack. They copy the pack's fields, so that
 * later changes of the pack do not affect them (C8). Throws `credit_pack_not_found`, `invalid_quantity`, and `invalid_request` for an
 * expiry in the past.
 */
export function planGrant(input: GrantOfPack, pack: Pack | null, nowMs: number, idOf: BalanceIds): NewBalances {
  if (pack === null || pack.archivedAtMs !== null) throw grantPackNotFound(input.packId, pack);
  const balances = pack.items.length > 0 ? ofItems(pack, idOf) : [ofOpenAmountPack(pack, input.quantity, idOf)];
  if (typeof input.expiresAt === "number" && input.expiresAt <= nowMs) {
    throw invalid("expiresAt", "must be in the future");
  }
  const defaultMs = pack.defaultExpiryDays === null ? NEVER_MS : nowMs + pack.defaultExpiryDays * DAY_MS;
  return {
    packId: pack.id,
    packNumber: pack.packNumber,
    packName: pack.name,
    source: input.source,
    cause: input.cause,
    externalRef: input.externalRef ?? null,
    notes: input.notes ?? null,
    expiresAtMs: input.expiresAt === undefined ? defaultMs : (input.expiresAt ?? NEVER_MS),
    balances,
  };
}

/** Returns `credit_pack_not_found`, with a message that depends on how the pack was searched (C7). */
function grantPackNotFound(idOrName: string, pack: Pack | null): PurserError {
  if (/^(price|prod)_/.test(idOrName)) {
    const message =
      "This is an id of Stripe. Name the credit pack. The application's Stripe setting says which pack a Stripe price grants.";
    return new PurserError("credit_pack_not_found", message, { param: "packId" });
  }
  const isId = idOrName.startsWith("cpk_");
  const noPack = isId
    ? "The application has no credit pack with this id."
    : "The application has no credit pack with this name. Names must match exactly, except for letter case. Archived packs have no name.";
  const message = pack === null ? noPack : "The credit pack is archived. Restore it, or grant another.";
  return new PurserError("credit_pack_not_found", message, { param: "packId" });
}

function ofItems(pack: Pack, idOf: BalanceIds): NewBalance[] {
  return pack.items.map((item, index) => ({
    id: idOf(index),
    itemNumber: item.itemNumber,
    packItemId: item.id,
    unit: item.unit,
    matches: item.matches,
    priority: item.priority,
    amountMinor: item.amountMinor,
  }));
}

function ofOpenAmountPack(pack: Pack, quantity: number | null | undefined, idOf: BalanceIds): NewBalance {
  assert(pack.unit !== null, "a pack without items has a unit of its own");
  const reject = (message: string) => new PurserError("invalid_quantity", message, { param: "quantity" });
  if (quantity === undefined || quantity === null)
    throw reject(`is required for this pack, which has no items, in its unit \`${pack.unit}\``);
  if (!(quantity > 0)) throw reject("must be more than 0");
  const amountMinor = toMinor(pack.unit, quantity);
  if (amountMinor === null) throw reject(amountRule(pack.unit, quantity));
  return {
    id: idOf(0),
    itemNumber: 0,
    packItemId: "",
    unit: pack.unit,
    matches: pack.matches,
    priority: pack.priority,
    amountMinor,
  };
}

/** The columns of a new balance that differ within a grant. `issued` is a JSON list of `NewBalance`. */
export const issuedColumns = {
  id: sql`issued.value ->> 'id'`,
  itemNumber: sql`issued.value ->> 'itemNumber'`,
  unit: sql`issued.value ->> 'unit'`,
  matches: sql`issued.value ->> 'matches'`,
  priority: sql`issued.value ->> 'priority'`,
  initialMinor: sql`issued.value ->> 'amountMinor'`,
  remainingMinor: sql`issued.value ->> 'amountMinor'`,
  hasRemaining: sql`1`,
};

const insertBalancesSql = query((value: ValueOf<WriteContext & { grant: string; balances: string }>) => {
  const seq = sql`${lastLedgerEntry.seq} + 1 + issued.key`;
  const insert = insertFrom(
    creditBalances,
    {
      accountId: accountOfWrite(value),
      ...issuedColumns,
      packId: sql`common.value ->> 'packId'`,
      packName: sql`common.value ->> 'packName'`,
      packNumber: sql`common.value ->> 'packNumber'`,
      sourceNumber: sql`common.value ->> 'sourceNumber'`,
      grantKind: sql`common.value ->> 'grantKind'`,
      grantedBy: authorOfWrite(value),
      externalRef: sql`common.value ->> 'externalRef'`,
      notes: sql`common.value ->> 'notes'`,
      grantedAtMs: lastLedgerEntry.occurredAtMs,
      expiresAtMs: sql`common.value ->> 'expiresAtMs'`,
      grantSeq: seq,
      lastSeq: seq,
    },
    // The aggregate returns a row even if the account has no entry yet.
    sql`FROM json_each(${value("grant")}) AS common, json_each(${value("balances")}) AS issued, (
      SELECT coalesce(max(${lastLedgerEntry.seq}), 0) AS ${names(lastLedgerEntry.seq)},
        max(coalesce(max(${lastLedgerEntry.occurredAtMs}), 0), ${asInteger(value("nowMs"))}) AS ${names(lastLedgerEntry.occurredAtMs)}
      FROM ${lastEntry(value)}
    ) AS ${lastLedgerEntry} WHERE 1 ORDER BY issued.key`,
  );
  const entryFields = fields(creditBalances, { accountId: "accountId", seq: "grantSeq", atMs: "grantedAtMs" });
  return returning(entryFields, (list) => sql`${insert} RETURNING ${list}`);
});

/** Issues all balances of a grant. Fails with `credit_balances_external_ref` or `credit_balances_id` if they exist already. */
export function insertBalances(
  writing: WriteContext,
  { balances, source, cause, ...fields }: NewBalances,
): EntriesStatement {
  const grant = { ...fields, sourceNumber: BALANCE_SOURCES[source], grantKind: ENTRY_KINDS[cause] };
  // Numbers are sent in JSON, because D1 binds them as REAL.
  const values = { grant: JSON.stringify([grant]), balances: JSON.stringify(balances) };
  const insert = returningEntries(insertBalancesSql({ ...writingValues(writing), ...values }));
  return changingCredits(insert, { entries: balances.length, raises: true });
}

export type Reader = Pick<TenantCtx, "environment" | "settings">;

/** The quota of balances in an environment. Null in live mode. */
export type Quota = { readonly used: number; readonly max: number } | null;

/** Returns the quota of an environment in which `used` balances exist. */
export const quotaOf = ({ environment, settings }: Reader, used: number): Quota =>
  environment.mode === "test" ? { used, max: settings.testBalanceQuota } : null;

/** Returns the rejection by the quota of the test mode (C19). */
export function quotaExceeded(max: number): PurserError {
  return new PurserError(
    "test_quota_exceeded",
    "The application has reached its limit of test-mode balances. Raise `TEST_BALANCE_QUOTA`, or use another application.",
    {
      details: { quota: max },
    },
  );
}

type TestBalances = { environmentId: number; amount: number; quota: number };
const countTestBalances = query((value: ValueOf<TestBalances>) => {
  const { id, testBalanceCount, testBalanceQuota } = environments;
  return drizzle
    .update(environments)
    .set({
      testBalanceCount: sql`${testBalanceCount} + ${value("amount")}`,
      testBalanceQuota: value("quota", testBalanceQuota),
    })
    .where(eq(id, value("environmentId")));
});

/** Counts balances of a test environment (C19). Aborts the batch with `environments_test_quota` when they exceed the quota. */
export function countBalances({ environment, settings }: Reader, amount: number): Statement[] {
  if (environment.mode !== "test" || amount === 0) return [];
  return [countTestBalances({ environmentId: environment.id, amount, quota: settings.testBalanceQuota })];
}

/** Counts granted amounts, for the overview. */
export function countGranted(ctx: TenantCtx, granted: NewBalances, nowMs: number): void {
  const { packId, balances, source, cause } = granted;
  const paid = cause === "payment" ? "sold" : source === "purchase" ? "purchase" : null;
  for (const { unit, amountMinor } of balances) {
    countOfPack(ctx.environment, "granted", nowMs, { unit, packId }, amountMinor);
    if (paid !== null) countActivity(ctx.environment, paid, nowMs, unit, amountMinor);
  }
}
