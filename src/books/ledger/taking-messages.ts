import { and, eq, or, sql } from "drizzle-orm";
import { asInteger, fields, insertFrom, query, returning, type ValueOf } from "../../db/query.ts";
import { creditLedger, paymentGrants, paymentNames, webhookMessages } from "../../db/schema.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliveryTimes, wantedMessages } from "../../webhooks/outbox.ts";
import { accountOfWrite, type WriteContext, writingValues } from "./account.ts";
import { amountOf } from "./debits.ts";
import { deliverOwn, endpointsByType, type MessageWrites } from "./judge-alerts.ts";
import { isSinceSettled } from "./owed.ts";

/** The key under which a payment is shown (payments/state.ts). */
const paymentKey = () => sql`(
  SELECT ${paymentNames.name} FROM ${paymentNames}
  WHERE ${paymentNames.environmentId} = ${paymentGrants.environmentId} AND ${paymentNames.paymentId} = ${paymentGrants.paymentId}
  ORDER BY iif(${paymentNames.name} GLOB 'pi_*', 0, iif(${paymentNames.name} GLOB 'cs_*', 1,
    iif(${paymentNames.name} GLOB 'in_*', 2, 3))), ${paymentNames.name} LIMIT 1
)`;

type Told = WriteContext & { settled: string; endpoints: string; messageId: string };

const tell = query((value: ValueOf<Told>) => {
  const { balanceId, unit, deltaSteps, balanceAfterSteps, isRevoked, note, seq, reason, reservationId } = creditLedger;
  const type = sql`iif(${paymentGrants.balanceId} IS NULL, 'credits.adjusted', 'payment.taken')`;
  const moved = sql`'balanceId', ${balanceId}, 'unit', ${unit}, 'delta', ${amountOf(deltaSteps, unit)},
    'remaining', ${amountOf(balanceAfterSteps, unit)}`;
  const ofPayment = and(
    eq(paymentGrants.balanceId, balanceId),
    or(sql`${isRevoked} = 0`, sql`${paymentGrants.isRevoked} = 1`),
  );
  const insert = insertFrom(
    webhookMessages,
    {
      id: sql`${value("messageId")} || printf('%06d', row_number() OVER (ORDER BY ${seq}))`,
      environmentId: asInteger(value("environmentId")),
      type,
      atMs: creditLedger.occurredAtMs,
      subject: value("userId"),
      data: sql`iif(${paymentGrants.balanceId} IS NULL,
        json_object('userId', ${value("userId")}, ${moved}, 'note', ${note}, 'seq', ${seq}),
        json_object('userId', ${value("userId")}, 'paymentKey', ${paymentKey()},
          'balances', json_array(json_object(${moved})), 'seq', ${seq}))`,
    },
    sql`FROM ${creditLedger} LEFT JOIN ${paymentGrants} ON ${ofPayment}
      WHERE ${isSinceSettled(value, accountOfWrite(value))} AND ${reason} = 'admin_adjust'
      AND ${reservationId} IN (SELECT value FROM json_each(${value("settled")}))
      AND ${value("endpoints")} -> ('$."' || ${type} || '"') IS NOT NULL`,
  );
  return returning(fields(webhookMessages, "id"), (list) => sql`${insert} RETURNING ${list}`);
});

const TYPES = [{ type: "credits.adjusted" }, { type: "payment.taken" }] as const;

/** Tells what settlements in the batch took of what they returned: what was owed (C21, S4), and what was revoked (U9). */
export function takingMessages(
  ctx: TenantCtx,
  account: WriteContext & { readonly features: string | null },
  settledIds: readonly string[],
): MessageWrites {
  const wanted = settledIds.length === 0 ? [] : wantedMessages(ctx, account.features, () => TYPES);
  const [first] = wanted;
  if (first === undefined) return { statements: [] };
  const { environmentId } = account;
  const own = { environmentId, messageId: first.id, endpoints: endpointsByType(wanted) };
  const told = tell({ ...writingValues(account), ...own, settled: JSON.stringify(settledIds) });
  return { statements: [told, deliverOwn({ ...own, ...deliveryTimes(ctx) })], returning: told };
}
