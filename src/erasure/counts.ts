import { amountOfSteps, UNITS, type Unit } from "../books/amounts/amount.ts";
import { fragment } from "../db/sql.ts";
import type { ErasureCounts } from "./responses.ts";

const GONE = ["analytics", "ids", "properties", "messages", "customers", "refusals"] as const;
const KEPT = ["balances", "ledger", "metering", "reservations", "adjustments", "refunds", "exports"] as const;

type Kind = (typeof GONE)[number] | "consent" | (typeof KEPT)[number];

/** Of each kind its rows; of a unit two sums that together are what would be revoked, because one could overflow. */
type Counts = Readonly<Record<Kind, number>> & {
  readonly revoked: Readonly<Record<Unit, readonly [high: number, low: number]>>;
};

const ofId = (table: string) => `${table} WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id`;
const ofAccount = (table: string) => `${table} WHERE account_id = a.id`;
const rows = (of: string) => `(SELECT count(*) FROM ${of})`;
/** The last of seqs without gaps. */
const last = (of: string, order = "seq DESC") => `coalesce((SELECT seq FROM ${of} ORDER BY ${order} LIMIT 1), 0)`;

const countSql: Readonly<Record<Kind, string>> = {
  analytics: "coalesce(d.event_count - d.deleted_count, 0)",
  consent: last(ofId("consent_log")),
  ids: "d.distinct_id IS NOT NULL",
  properties: rows(ofId("id_properties")),
  messages: rows("webhook_messages WHERE environment_id = i.environment_id AND subject = i.distinct_id"),
  customers: rows("stripe_customers WHERE environment_id = i.environment_id AND user_id = i.distinct_id"),
  refusals: rows("refusals WHERE environment_id = i.environment_id AND user_id = i.distinct_id"),
  balances: rows(ofAccount("credit_balances")),
  ledger: last(ofAccount("credit_ledger")),
  metering: last(ofAccount("usage_events"), "occurred_by_ms DESC, seq DESC"),
  reservations: `${rows(`${ofAccount("reservations")} AND state = 'open'`)} + ${rows(`${ofAccount("reservations")} AND state <> 'open'`)}`,
  adjustments: rows(ofAccount("credit_adjustments")),
  refunds: rows(ofAccount("credit_refunds")),
  exports: last(ofId("export_audit")),
};

const SPLIT = 1_000_000;

/** What remains of a unit, with what open reservations hold of balances that are not revoked. */
function remainingSql(unit: Unit): string {
  const sums = (steps: string, from: string) =>
    [`${steps} / ${SPLIT}`, `${steps} % ${SPLIT}`].map((part) => `coalesce((SELECT sum(${part}) FROM ${from}), 0)`);
  const remaining = sums("remaining_steps", `${ofAccount("credit_balances")} AND unit = '${unit}'`);
  const held = sums(
    "(leg.value ->> 'amountSteps')",
    `reservations AS r, json_each(r.legs) AS leg CROSS JOIN credit_balances AS b ON b.id = leg.value ->> 'balanceId'
     WHERE r.account_id = a.id AND r.state = 'open' AND b.account_id = a.id AND b.unit = '${unit}' AND b.revoked_at_ms IS NULL`,
  );
  return `json_array(${remaining.map((sum, index) => `coalesce(sum(${sum} + ${held[index]}), 0)`).join()})`;
}

/** SQL: what is held about the ids of a table `i` (environment_id, distinct_id), as JSON for `readCounts`. */
export const countsSql = (ids: string): string => fragment`
  SELECT json_object(${Object.entries(countSql)
    .map(([name, sql]) => `'${name}', coalesce(sum(${sql}), 0)`)
    .join()}, 'revoked', json_object(${UNITS.map((unit) => `'${unit}', ${remainingSql(unit)}`).join()}))
  FROM ${ids} AS i
  LEFT JOIN distinct_ids AS d ON d.environment_id = i.environment_id AND d.distinct_id = i.distinct_id
  LEFT JOIN accounts AS a ON a.environment_id = i.environment_id AND a.user_id = i.distinct_id AND a.is_erased = 0`;

/** The sums of `stored`, a JSON list of what `countsSql` wrote. Consent that is kept is in no list. */
export function readCounts(stored: string, keepConsent: boolean): ErasureCounts {
  const counts = JSON.parse(stored) as readonly Counts[];
  const sum = (of: (part: Counts) => number): number => counts.reduce((total, part) => total + of(part), 0);
  // The record has each of the names.
  const listed = <Name extends Kind>(names: readonly Name[]) =>
    Object.fromEntries(names.map((name) => [name, sum((part) => part[name])])) as Record<Name, number>;
  const revoked: { [U in Unit]?: number } = {};
  for (const unit of UNITS) {
    const [high, low] = [0, 1].map((index) => BigInt(sum((part) => part.revoked[unit][index] ?? 0)));
    const steps = (high ?? 0n) * BigInt(SPLIT) + (low ?? 0n);
    if (steps > 0n) revoked[unit] = amountOfSteps(unit, steps);
  }
  return {
    erased: { ...listed(GONE), ...(keepConsent ? {} : listed(["consent"])) },
    pseudonymised: listed(KEPT),
    revoked,
  };
}
