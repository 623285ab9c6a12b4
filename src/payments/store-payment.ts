import { accountSql, type WriteContext } from "../books/ledger/account.ts";
import { type Statement, statement } from "../db/sql.ts";
import type { PaymentChange } from "./event.ts";
import type { Fact } from "./facts.ts";
import type { StoredLine } from "./line.ts";
import type { Outcome, StoredPayment } from "./stored-payment.ts";

/** How a payment is stored: what is new about it, and those that turned out to be the same. */
export interface PaymentWrite {
  readonly environmentId: number;
  readonly nowMs: number;
  readonly writtenBy: string;
  /** What was read, of which this is the first. Empty for a new payment. */
  readonly known: readonly StoredPayment[];
  readonly id: string;
  readonly status: StoredPayment["status"];
  readonly reason: string | null;
  readonly customer: string | null;
  readonly settledBy: string | null;
  readonly tellAtMs: number | null;
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  readonly lines: readonly StoredLine[];
  /** The grants of which all is due, because another grant of the payment came first. */
  readonly surplus: readonly string[];
  readonly event: Pick<PaymentChange, "eventId" | "type" | "at"> | null;
  readonly outcome: Outcome;
}

/** Statements that store a payment. They abort with `guard_payment` or `payment_names_taken` where it changed since. */
export function storePayment(write: PaymentWrite): Statement[] {
  const { environmentId, nowMs, writtenBy, known, id, status, reason, customer, settledBy, tellAtMs, outcome } = write;
  const [kept, ...others] = known;
  const lines = JSON.stringify(write.lines);
  const values = { environmentId, id, status, reason, customer, settledBy, tellAtMs, writtenBy, lines };
  const otherIds = JSON.stringify(others.map((payment) => payment.id));
  const versions = JSON.stringify(known.map((payment) => ({ id: payment.id, version: payment.version })));
  const newNames = write.names.filter((name) => !known.some((payment) => payment.names.includes(name)));
  const newFacts = write.facts.filter((fact) => !kept?.facts.includes(fact));
  const createdAtMs = Math.min(nowMs, ...known.map((payment) => payment.createdAtMs));
  const merges = { environmentId, id, otherIds };
  return [
    // First, so that a batch that is sent again says that a name is taken.
    ...(newNames.length === 0 ? [] : [insertNames({ environmentId, id, names: JSON.stringify(newNames) })]),
    ...(kept === undefined
      ? [insertPayment({ ...values, createdAtMs })]
      : [guardVersions({ environmentId, versions }), updatePayment({ ...values, createdAtMs })]),
    ...(others.length === 0
      ? []
      : [
          moveNames(merges),
          moveGrants({ ...merges, surplus: JSON.stringify(write.surplus) }),
          moveEvents(merges),
          deleteFacts(merges),
          deletePayments(merges),
        ]),
    ...(newFacts.length === 0 ? [] : [upsertFacts({ environmentId, id, facts: JSON.stringify(newFacts) })]),
    ...(write.event === null ? [] : [upsertEvent({ environmentId, id, ...write.event, outcome })]),
  ];
}

type PaymentValues = {
  environmentId: number;
  id: string;
  status: string;
  reason: string | null;
  customer: string | null;
  settledBy: string | null;
  tellAtMs: number | null;
  writtenBy: string;
  lines: string;
  createdAtMs: number;
};

const insertPayment = statement<PaymentValues>`
  INSERT INTO payments (
    environment_id, id, status, reason, customer, settled_by, tell_at_ms, version, written_by, lines,
    created_at_ms
  ) VALUES (
    :environmentId, :id, :status, :reason, :customer, :settledBy, :tellAtMs, 1, :writtenBy, :lines, :createdAtMs
  )`;

const updatePayment = statement<PaymentValues>`
  UPDATE payments SET status = :status, reason = :reason, customer = :customer, settled_by = :settledBy,
    tell_at_ms = :tellAtMs, version = version + 1, written_by = :writtenBy, lines = :lines,
    created_at_ms = :createdAtMs
  WHERE environment_id = :environmentId AND id = :id`;

/** Aborts the batch with `guard_payment` where another write came first. */
const guardVersions = statement<{ environmentId: number; versions: string }>`
  INSERT INTO guards (name, holds) SELECT 'payment', count(*) = json_array_length(:versions)
  FROM json_each(:versions) AS known CROSS JOIN payments AS p
  ON p.environment_id = :environmentId AND p.id = known.value ->> 'id' AND p.version = known.value ->> 'version'`;

/** Aborts the batch with `guard_payment` where somebody said meanwhile whose the customer is. */
export const guardNoCustomer = statement<{ environmentId: number; customer: string }>`
  INSERT INTO guards (name, holds) SELECT 'payment', NOT EXISTS (
    SELECT 1 FROM stripe_customers WHERE environment_id = :environmentId AND customer = :customer
  )`;

type Merge = { environmentId: number; id: string; otherIds: string };
const ofOthers = "environment_id = :environmentId AND payment_id IN (SELECT value FROM json_each(:otherIds))";
const moveNames = statement<Merge>`UPDATE payment_names SET payment_id = :id WHERE ${ofOthers}`;
const moveEvents = statement<Merge>`UPDATE payment_events SET payment_id = :id WHERE ${ofOthers}`;
const moveGrants = statement<Merge & { surplus: string }>`
  UPDATE payment_grants SET payment_id = :id,
    is_surplus = max(is_surplus, balance_id IN (SELECT value FROM json_each(:surplus)))
  WHERE environment_id = :environmentId AND payment_id IN (SELECT value FROM json_each(:otherIds) UNION ALL SELECT :id)`;
const deleteFacts = statement<Merge>`DELETE FROM payment_facts WHERE ${ofOthers}`;
const deletePayments = statement<Merge>`
  DELETE FROM payments WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:otherIds))`;

const insertNames = statement<{ environmentId: number; id: string; names: string }>`
  INSERT INTO payment_names (environment_id, name, payment_id)
  SELECT CAST(:environmentId AS INTEGER), value, :id FROM json_each(:names)`;

const upsertFacts = statement<{ environmentId: number; id: string; facts: string }>`
  INSERT INTO payment_facts (environment_id, payment_id, kind, id, at_seconds, user_id, data, subscription)
  SELECT CAST(:environmentId AS INTEGER), :id, value ->> 'kind', value ->> 'id', value ->> 'at', value ->> 'userId',
    value -> 'data', value ->> '$.data.subscription'
  FROM json_each(:facts) WHERE 1
  ON CONFLICT (environment_id, payment_id, kind, id)
  DO UPDATE SET at_seconds = excluded.at_seconds, user_id = excluded.user_id, data = excluded.data,
    subscription = excluded.subscription`;

const upsertEvent = statement<{
  environmentId: number;
  id: string;
  eventId: string;
  type: string;
  at: number;
  outcome: string;
}>`
  INSERT INTO payment_events (environment_id, payment_id, event_id, type, at_seconds, outcome)
  VALUES (:environmentId, :id, :eventId, :type, :at, :outcome)
  ON CONFLICT (environment_id, payment_id, event_id) DO UPDATE SET outcome = excluded.outcome`;

/** Notes the balances that were granted earlier in the batch as the payment's, each with the line that it is of. */
export const insertGrants = statement<WriteContext & { paymentId: string; grants: string }>`
  INSERT INTO payment_grants (
    balance_id, environment_id, payment_id, account_id, line, due_steps, taken_steps, is_revoked, is_surplus
  )
  SELECT value ->> 'id', CAST(:environmentId AS INTEGER), :paymentId, ${accountSql}, value ->> 'line', 0, 0, 0, 0
  FROM json_each(:grants)`;
