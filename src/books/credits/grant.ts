import { and, eq, sql } from "drizzle-orm";
import { choosePack, nameKey, nearestPackNames, type PackRow, selectPack } from "../../catalog/pack.ts";
import { countRejection } from "../../db/count-activity.ts";
import { drizzle, fields, type RowOf, type ValueOf } from "../../db/query.ts";
import { creditBalances } from "../../db/schema.ts";
import { idIn } from "../../db/session.ts";
import { assert, PurserError } from "../../errors.ts";
import { type Warning, warn } from "../../http/warnings.ts";
import type { TenantCtx } from "../../runtime.ts";
import { fromMinor, toMinor } from "../amounts/amount.ts";
import { accountQuery, writingValues } from "../ledger/account.ts";
import { presentExpiry } from "../ledger/balance.ts";
import { type Decision, type Outcome, replay, writeAll } from "../ledger/decision.ts";
import { creditsGranted } from "../ledger/messages.ts";
import {
  type BalanceIds,
  countBalances,
  countGranted,
  insertBalances,
  type NewBalances,
  planGrant,
  quotaExceeded,
} from "../ledger/new-balances.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { apply, changesOfHolds } from "../ledger/settle.ts";
import { previewForUser, writeForUser } from "../ledger/write.ts";

export interface GrantOutput {
  readonly balances: {
    readonly balanceId: string;
    readonly packItemId: string | null;
    readonly remaining: number;
    readonly expiresAt: string | null;
  }[];
  readonly balanceId: string;
  readonly remaining: number;
  readonly expiresAt: string | null;
}

export interface GrantInput {
  readonly userId: string;
  readonly packId: string;
  readonly source: "grant" | "manual" | "purchase" | "refund";
  readonly quantity?: number | null | undefined;
  readonly externalRef?: string | undefined;
  readonly expiresAt?: number | null | undefined;
  readonly notes?: string | undefined;
}

/**
 * Issues a pack's balances to a user: one for each item, or one of `quantity` for an open-amount pack; all or none. With an `externalRef`
 * the pack is granted only once (C7 to C10, C19). Throws `credit_pack_not_found`, `invalid_quantity`, `test_quota_exceeded`, and
 * `invalid_request` for an expiry in the past, and for more balances than a user may have (L6).
 */
export async function grantPack(ctx: TenantCtx, input: GrantInput): Promise<Outcome<GrantOutput>> {
  const { userId, externalRef = null } = input;
  const ids: string[] = [];
  const idOf: BalanceIds = (index) => {
    ids[index] ??= idIn(ctx.environment.database, ctx.newId("crb_"));
    return ids[index];
  };
  try {
    const granted = await writeForUser(ctx, {
      user: { userId },
      read: () => [
        selectPack(ctx, input.packId),
        selectGranted(ctx, { userId }, { externalRef, ids: JSON.stringify(ids) }),
      ],
      decide: ([packs, earlier], account) =>
        decideGrant(ctx, { input, packs, earlier, isOfThisGrant: (row) => ids.includes(row.id), idOf }, account),
      rejections: grantRejections(ctx),
    });
    assert(granted !== null, "a user named by id is never unknown");
    const { warning, ...outcome } = granted;
    if (warning !== null) warn(ctx, warning);
    return outcome;
  } catch (error) {
    if (error instanceof PurserError && error.fault === undefined) {
      countRejection(ctx, "failed_grant", error, { userId, subject: input.packId });
    }
    throw await withNearestPacks(ctx, input.packId, error);
  }
}

/**
 * Adds the names of similar packs to the rejection of an unknown pack. The response may show them, because the caller is the
 * application's backend.
 */
export async function withNearestPacks(ctx: TenantCtx, name: string, error: unknown): Promise<unknown> {
  if (!(error instanceof PurserError) || error.code !== "credit_pack_not_found") return error;
  const names = await nearestPackNames(ctx, name).catch((): string[] => []);
  if (names.length === 0) return error;
  const suggestions = names.map((name) => JSON.stringify(name)).join(" or ");
  const message = `${error.message} Did you mean ${suggestions}?`;
  return new PurserError(error.code, message, { param: "packId", cause: error });
}

const grantedFields = () =>
  fields(
    creditBalances,
    ...(["id", "packId", "packName", "packItemId", "unit", "initialMinor"] as const),
    ...(["remainingMinor", "expiresAtMs", "revokedAtMs", "grantSeq"] as const),
  );
type GrantedRow = RowOf<ReturnType<typeof grantedFields>>;

/**
 * Selects the user's balances with an `externalRef`, of any pack; none for null. Includes balances that an earlier attempt issued
 * before its response was lost. The index is named, because SQLite might otherwise read all balances of the user.
 */
const selectGranted = accountQuery((value: ValueOf<{ externalRef: string | null; ids: string }>, account) => {
  const { accountId, id, externalRef } = creditBalances;
  const ofReference = drizzle
    .select(fields(creditBalances, "id"))
    .from(sql`${creditBalances} INDEXED BY credit_balances_external_ref`)
    .where(and(sql`${accountId} = given.account`, eq(externalRef, value("externalRef"))));
  const ids = sql`${ofReference.getSQL()} UNION ALL SELECT value FROM json_each(${value("ids")})`;
  return drizzle
    .select(grantedFields())
    .from(sql`(SELECT ${account} AS account) AS given`)
    .crossJoin(creditBalances)
    .where(sql`+${accountId} = given.account AND ${id} IN (${ids})`);
});

interface Grant {
  readonly input: GrantInput;
  readonly packs: readonly PackRow[];
  readonly earlier: readonly GrantedRow[];
  /** Whether this grant issued the row in an earlier attempt, whose response was lost. */
  readonly isOfThisGrant: (row: GrantedRow) => boolean;
  readonly idOf: BalanceIds;
}

type Granted = Outcome<GrantOutput> & { readonly warning: Warning | null };

/** Returns the warning about a grant's quantity (W16) for the balances that the grant issued or found. */
function grantWarning(
  { quantity }: GrantInput,
  [balance]: readonly Pick<GrantedRow, "packItemId" | "unit" | "initialMinor">[],
): Warning | null {
  if (quantity === undefined || quantity === null || balance === undefined) return null;
  if (balance.packItemId !== "") return "quantity_disregarded";
  return toMinor(balance.unit, quantity) === balance.initialMinor ? null : "granted_before";
}

type DecidedGrant = { readonly replayed: readonly GrantedRow[] } | { readonly newBalances: NewBalances };

/** Returns the balances that a grant issues, or those that an earlier one did. Throws the rejections of `grantPack`. Pure. */
function decideIssue(
  { input, packs, earlier, idOf }: Pick<Grant, "input" | "packs" | "earlier" | "idOf">,
  account: AccountAtRead,
): DecidedGrant {
  const pack = choosePack(input.packId, packs);
  // A replay is found before anything is rejected: by this pack, or by the name under which the pack was granted (C10).
  const isSamePack = (row: GrantedRow) => row.packId === pack?.id;
  const isSameName = (row: GrantedRow) => nameKey(row.packName) === nameKey(input.packId);
  const replayed = earlier.some(isSamePack)
    ? earlier.filter(isSamePack)
    : firstPackOf(pack?.id === input.packId ? [] : earlier.filter(isSameName));
  if (replayed.length > 0) return { replayed: apply(replayed, changesOfHolds(account.settled)) };
  return { newBalances: planGrant({ ...input, cause: "grant" }, pack, account.nowMs, idOf) };
}

function decideGrant(ctx: TenantCtx, grant: Grant, account: AccountAtRead): Decision<Granted> {
  const { input, earlier, isOfThisGrant } = grant;
  const stored = (rows: readonly GrantedRow[], replayed: boolean): Decision<Granted> =>
    replay({ output: storedOutput(rows), replayed, warning: grantWarning(input, rows) });
  const ofThisGrant = earlier.filter(isOfThisGrant);
  if (ofThisGrant.length > 0) return stored(ofThisGrant, false);
  const decided = decideIssue(grant, account);
  if ("replayed" in decided) return stored(decided.replayed, true);
  const { newBalances } = decided;
  const { statements, count } = issueBalances(ctx, account, [newBalances]);
  const balanceIds = newBalances.balances.map(({ id }) => id);
  return writeAll(
    statements,
    () => {
      count();
      const issued = newBalances.balances.map((balance) => ({ ...balance, initialMinor: balance.amountMinor }));
      return { output: newOutput(newBalances), replayed: false, warning: grantWarning(input, issued) };
    },
    {
      audit: { action: "credits.granted", target: newBalances.packId, balanceIds },
      messages: () => [creditsGranted(account.userId, newBalances)],
      remembers: { newBalances: newRows(newBalances, account.nowMs) },
    },
  );
}

/** Returns the statements that issue balances, and a function that counts them after that. Use `grantRejections` with them. */
export function issueBalances(ctx: TenantCtx, account: AccountAtRead, grants: readonly NewBalances[]) {
  const quota = countBalances(
    ctx,
    grants.reduce((sum, { balances }) => sum + balances.length, 0),
  );
  return {
    // The balances come first, so that a replay is found before the quota rejects it.
    statements: [...grants.map((grant) => insertBalances(writingValues(account), grant)), ...quota],
    count: () => {
      for (const grant of grants) countGranted(ctx, grant, account.nowMs);
    },
  };
}

export const grantRejections = (ctx: TenantCtx) => ({
  credit_balances_bounded: tooManyBalances,
  credit_balances_of_reference_bounded: tooManyOfReference,
  environments_test_quota: () => quotaExceeded(ctx.settings.testBalanceQuota),
});

/** The most balances of a user that can pay (L6). */
export const USER_BALANCES_MAX = 40_000;
/** The most balances of a user under one reference (L6). The message of a refund names them all in one value. */
export const REFERENCE_BALANCES_MAX = 5_000;

export function tooManyOfReference(): PurserError {
  const message = "This reference has the maximum number of balances. Use a reference for each purchase.";
  return new PurserError("invalid_request", message, {
    param: "externalRef",
    details: { limit: REFERENCE_BALANCES_MAX },
  });
}

function tooManyBalances(): PurserError {
  const message =
    "The user has the maximum number of balances that can pay, or of their match rules. Grant again when some are spent or expired.";
  return new PurserError("invalid_request", message, { param: "userId", details: { limit: USER_BALANCES_MAX } });
}

/** Returns the rows of the pack that was granted first. The rows may belong to two packs with the same name. */
function firstPackOf(rows: readonly GrantedRow[]): readonly GrantedRow[] {
  const first = rows.toSorted((a, b) => a.grantSeq - b.grantSeq)[0];
  return rows.filter((row) => row.packId === first?.packId);
}

/** Returns the rows that new balances have, for this isolate's memory and for previews. */
function newRows({ packId, packName, expiresAtMs, balances }: NewBalances, grantedAtMs: number) {
  return balances.map(({ id, packItemId, unit, matches, priority, amountMinor }) => ({
    ...{ id, packId, packName, packItemId, unit, matches, priority, grantedAtMs, expiresAtMs },
    ...{ initialMinor: amountMinor, remainingMinor: amountMinor, revokedAtMs: null },
  }));
}

function storedOutput(rows: readonly GrantedRow[]): GrantOutput {
  return presentGrant(rows.toSorted((a, b) => a.grantSeq - b.grantSeq));
}

function newOutput({ balances, expiresAtMs }: NewBalances): GrantOutput {
  return presentGrant(balances.map((balance) => ({ ...balance, remainingMinor: balance.amountMinor, expiresAtMs })));
}

/** Returns the response of a grant. */
export function presentGrant(
  rows: readonly Pick<GrantedRow, "id" | "packItemId" | "unit" | "remainingMinor" | "expiresAtMs">[],
): GrantOutput {
  const balances = rows.map((row) => ({
    balanceId: row.id,
    packItemId: row.packItemId === "" ? null : row.packItemId,
    remaining: fromMinor(row.unit, row.remainingMinor),
    expiresAt: presentExpiry(row.expiresAtMs),
  }));
  const first = balances[0];
  assert(first !== undefined, "a grant leaves at least one balance");
  const { balanceId, remaining, expiresAt } = first;
  return { balances, balanceId, remaining, expiresAt };
}

/**
 * Returns the result that a grant would have. Throws the rejections of `grantPack`, except for the test quota and for too many balances.
 * `ignoresQuantity` is true for a quantity that a pack with items ignores, and `isReplay` if nothing more would be issued.
 */
export async function previewGrant(ctx: TenantCtx, input: GrantInput) {
  const { userId, externalRef = null } = input;
  const preview = await previewForUser(ctx, {
    user: { userId },
    read: () => [selectPack(ctx, input.packId), selectGranted(ctx, { userId }, { externalRef, ids: "[]" })],
    decide: ([packs, earlier], account) => {
      const decided = decideIssue({ input, packs, earlier, idOf: String }, account);
      const isReplay = "replayed" in decided;
      const issued = isReplay ? decided.replayed : newRows(decided.newBalances, account.nowMs);
      const [first] = issued;
      assert(first !== undefined, "a grant has at least one balance");
      return {
        isReplay,
        packName: first.packName,
        ignoresQuantity: first.packItemId !== "" && typeof input.quantity === "number",
        expiresAt: presentExpiry(first.expiresAtMs),
        amounts: issued.map(({ unit, initialMinor }) => ({
          unit,
          amount: fromMinor(unit, initialMinor),
          amountMinor: initialMinor,
        })),
      };
    },
  });
  assert(preview !== null, "a user named by id is never unknown");
  return preview;
}
