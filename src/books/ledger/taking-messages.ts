import { fragment, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { deliveryTimes, intoMessages, wantedMessages } from "../../webhooks/outbox.ts";
import { accountSql, type WriteContext, writingValues } from "./account.ts";
import { amountSql } from "./debits.ts";
import { deliverOwn, endpointsByType, type MessageWrites } from "./judge-alerts.ts";
import { settledEntries } from "./owed.ts";

const typeOf = fragment`iif(g.balance_id IS NULL, 'credits.adjusted', 'payment.taken')`;

// The key under which a payment is shown (payments/state.ts).
const paymentKey = fragment`(
  SELECT name FROM payment_names WHERE environment_id = g.environment_id AND payment_id = g.payment_id
  ORDER BY iif(name GLOB 'pi_*', 0, iif(name GLOB 'cs_*', 1, iif(name GLOB 'in_*', 2, 3))), name LIMIT 1
)`;
const moved = fragment`'balanceId', l.balance_id, 'unit', l.unit, 'delta', ${amountSql("l.delta_steps", "l.unit")},
    'remaining', ${amountSql("l.balance_after_steps", "l.unit")}`;

type Told = WriteContext & { settled: string; endpoints: string; messageId: string };
const tell = statement<Told, { id: string }>`
  ${intoMessages}
  SELECT :messageId || printf('%06d', row_number() OVER (ORDER BY l.seq)), CAST(:environmentId AS INTEGER), ${typeOf},
    l.occurred_at_ms, :userId, iif(g.balance_id IS NULL,
      json_object('userId', :userId, ${moved}, 'note', l.note, 'seq', l.seq),
      json_object('userId', :userId, 'paymentKey', ${paymentKey}, 'balances', json_array(json_object(${moved})), 'seq', l.seq))
  FROM (
    SELECT * FROM ${settledEntries(accountSql)} AND l.reason = 'admin_adjust'
      AND l.reservation_id IN (SELECT value FROM json_each(:settled))
  ) AS l LEFT JOIN payment_grants AS g ON g.balance_id = l.balance_id AND (l.is_revoked = 0 OR g.is_revoked = 1)
  WHERE :endpoints -> ('$."' || ${typeOf} || '"') IS NOT NULL
  RETURNING id`;

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
  const returning = tell({ ...writingValues(account), ...own, settled: JSON.stringify(settledIds) });
  return { statements: [returning, deliverOwn({ ...own, ...deliveryTimes(ctx) })], returning };
}
