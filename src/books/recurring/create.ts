import { sql } from "drizzle-orm";
import { choosePack, type PackRow, selectPack } from "../../catalog/pack.ts";
import { asInteger, drizzle, fields, insertFrom, query, scalar, type ValueOf } from "../../db/query.ts";
import { recurringGrants } from "../../db/schema.ts";
import { assert, invalid } from "../../errors.ts";
import { type Warning, warn } from "../../http/warnings.ts";
import { iso } from "../../lib/time.ts";
import { offsetMsAt, toLocalMs } from "../../lib/time-zone.ts";
import type { TenantCtx } from "../../runtime.ts";
import { grantRejections, withNearestPacks } from "../credits/grant.ts";
import { accountOfWrite, type WriteContext, writingValues } from "../ledger/account.ts";
import { addPeriods, type Every } from "../ledger/calendar.ts";
import {
  compareFingerprint,
  type Decision,
  fingerprintRequest,
  idempotencyConflict,
  type Outcome,
  type RequestFingerprint,
  replay,
  writeAll,
} from "../ledger/decision.ts";
import { changingCredits } from "../ledger/insert-entries.ts";
import { countBalances, countGranted, planGrant } from "../ledger/new-balances.ts";
import { insertPeriods, periodMessages } from "../ledger/period-writes.ts";
import { grantOfPeriod, planPeriods, type RecurringOfPack } from "../ledger/plan-periods.ts";
import type { AccountAtRead } from "../ledger/read-account.ts";
import { writeForUser } from "../ledger/write.ts";
import {
  asCreated,
  presentRecurring,
  type RecurringOutput,
  type StoredRecurring,
  selectRecurring,
  tooManyRecurring,
  withChange,
} from "./recurring.ts";

export interface CreateRecurringInput {
  readonly userId: string;
  readonly packId: string;
  readonly every: Every;
  readonly rolloverPeriods: number | null;
  readonly timeZone: string;
  readonly recurringId?: string | undefined;
  readonly quantity?: number | null | undefined;
  readonly startsAt?: number | undefined;
  readonly endsAt?: number | undefined;
}

const stampedFields = [
  ...(["userId", "packId", "quantity", "every", "startsAt", "endsAt", "rolloverPeriods"] as const),
  "timeZone",
] as const;

type CreatedRecurring = Outcome<RecurringOutput> & { readonly warning: Warning | null };

/**
 * Creates a recurring grant, and grants its due periods (R1, R2). If the caller sends a `recurringId`, the call is idempotent. Throws
 * the errors of a grant, `invalid_request` for an anchor more than a year away, an end before the start, or too many recurring
 * grants, and `idempotency_conflict`.
 */
export async function createRecurring(ctx: TenantCtx, input: CreateRecurringInput): Promise<Outcome<RecurringOutput>> {
  const { recurringId = ctx.newId("rec_"), ...body } = input;
  const fingerprint = await fingerprintRequest(ctx, ["recurring"], body, stampedFields);
  const idSeed = ctx.newId("");
  const creation = await writeForUser(ctx, {
    user: { userId: body.userId },
    read: () => [selectRecurring(ctx, recurringId), selectPack(ctx, body.packId)],
    decide: ([[stored], packs], account): Decision<CreatedRecurring> => {
      if (stored !== undefined)
        return replay(answerRepeat(body, withChange(stored, account.periods.changes), fingerprint, account.nowMs));
      return decideCreate(ctx, { recurringId, body, fingerprint, idSeed, packs }, account);
    },
    rejections: { ...grantRejections(ctx), recurring_grants_bounded: tooManyRecurring },
  }).catch(async (error: unknown) => {
    throw await withNearestPacks(ctx, body.packId, error);
  });
  assert(creation !== null, "a user named by id is never unknown");
  const { warning, ...outcome } = creation;
  if (warning !== null) warn(ctx, warning);
  return outcome;
}

interface Creation {
  readonly recurringId: string;
  readonly body: Omit<CreateRecurringInput, "recurringId">;
  readonly fingerprint: RequestFingerprint;
  readonly idSeed: string;
  readonly packs: readonly PackRow[];
}

function decideCreate(
  ctx: TenantCtx,
  { recurringId, body, fingerprint, idSeed, packs }: Creation,
  account: AccountAtRead,
): Decision<CreatedRecurring> {
  const { every, startsAt = account.nowMs, endsAt = null, timeZone } = body;
  checkTimes(startsAt, endsAt, account.nowMs);
  const pack = choosePack(body.packId, packs);
  // The rejections of a grant apply even if the first period is in the future.
  const { balances, packId, packName } = planGrant(
    { packId: body.packId, quantity: body.quantity, source: "grant", cause: "recurring" },
    pack,
    account.nowMs,
    String,
  );
  const isOpenAmount = pack?.items.length === 0;
  const quantity = isOpenAmount ? JSON.stringify(body.quantity) : null;
  const zone = { timeZone, utcOffsetMs: offsetMsAt({ timeZone, utcOffsetMs: 0 }, startsAt) };
  const row: StoredRecurring & RecurringOfPack = {
    accountId: account.accountId ?? 0,
    environmentId: account.environmentId,
    ...{ ordinal: 0, id: recurringId, packId, packName, pack, every, idSeed },
    quantity,
    ...{ timeZone, anchorLocalMs: toLocalMs(zone, startsAt), utcOffsetMs: zone.utcOffsetMs },
    ...{ anchorMs: startsAt, endsAtMs: endsAt, rolloverPeriods: body.rolloverPeriods },
    ...{ state: "active", reason: null, lastN: 0, finalN: null, nextAtMs: startsAt },
    ...{ countedBalances: balances.length, createdAtMs: account.nowMs, requestHash: fingerprint.stored },
  };
  grantOfPeriod(ctx.environment, row, 1);
  const plan = planPeriods(ctx.environment, [row], { nowMs: account.nowMs, quota: null, isWhole: true });
  const created = asCreated(row);
  const { pack: _, accountId: __, ordinal: ___, ...stored } = { ...row, ...created };
  return writeAll(
    [
      insertRecurring({ ...writingValues(account), ...stored }),
      ...countBalances(ctx, balances.length),
      ...insertPeriods(account, plan.periods).map((insert) => changingCredits(insert, { entries: 0, raises: true })),
    ],
    () => {
      for (const { grant } of plan.periods) countGranted(ctx, grant, account.nowMs);
      const output = presentRecurring(body.userId, created, account.nowMs);
      return { output, replayed: false, warning: recurringWarning(body, { quantity }) };
    },
    {
      audit: { action: "recurring.created", target: recurringId, details: { packId, every } },
      messages: () => periodMessages(body.userId, plan),
    },
  );
}

/** Returns the warning about a quantity that was sent for a pack with items (W16). The stored grant has no quantity then. */
function recurringWarning({ quantity }: Creation["body"], stored: Pick<StoredRecurring, "quantity">): Warning | null {
  return stored.quantity === null && typeof quantity === "number" ? "quantity_disregarded" : null;
}

/** Returns the recurring grant as it stands now (R1). */
function answerRepeat(
  body: Creation["body"],
  stored: StoredRecurring,
  fingerprint: RequestFingerprint,
  nowMs: number,
): CreatedRecurring {
  const comparison = compareFingerprint(stored.requestHash, fingerprint);
  if (comparison === "other") {
    const message = "Another recurring grant has this id. Send a new `recurringId`.";
    throw idempotencyConflict(message, "recurringId", stored.requestHash, fingerprint);
  }
  const output = presentRecurring(body.userId, stored, nowMs);
  return { output, replayed: comparison === "replay", warning: recurringWarning(body, stored) };
}

function checkTimes(startsAt: number, endsAt: number | null, nowMs: number): void {
  const [earliest, latest] = [addPeriods(nowMs, "year", -1), addPeriods(nowMs, "year", 1)];
  if (startsAt < earliest || startsAt > latest) {
    throw invalid("startsAt", `must be at most a year from now, between ${iso(earliest)} and ${iso(latest)}`);
  }
  if (endsAt !== null && endsAt <= startsAt) throw invalid("endsAt", `must be after the start, ${iso(startsAt)}`);
}

type NewRecurring = WriteContext & Omit<StoredRecurring, "accountId" | "ordinal">;

const insertRecurring = query((value: ValueOf<NewRecurring>) => {
  const { ordinal, accountId } = recurringGrants;
  const account = accountOfWrite(value);
  const lastOrdinal = drizzle
    .select(fields(recurringGrants, "ordinal"))
    .from(recurringGrants)
    .where(sql`${accountId} = ${account}`)
    .orderBy(sql`${ordinal} DESC`)
    .limit(1);
  return insertFrom(
    recurringGrants,
    {
      accountId: account,
      ordinal: sql`1 + coalesce(${scalar(lastOrdinal)}, 0)`,
      environmentId: asInteger(value("environmentId")),
      id: value("id"),
      packId: value("packId"),
      packName: value("packName"),
      quantity: value("quantity"),
      every: value("every"),
      anchorMs: asInteger(value("anchorMs")),
      timeZone: value("timeZone"),
      anchorLocalMs: asInteger(value("anchorLocalMs")),
      utcOffsetMs: asInteger(value("utcOffsetMs")),
      endsAtMs: asInteger(value("endsAtMs")),
      rolloverPeriods: asInteger(value("rolloverPeriods")),
      idSeed: value("idSeed"),
      state: value("state"),
      lastN: asInteger(value("lastN")),
      nextAtMs: asInteger(value("nextAtMs")),
      countedBalances: asInteger(value("countedBalances")),
      createdAtMs: asInteger(value("createdAtMs")),
      requestHash: value("requestHash"),
    },
    sql``,
  );
});
