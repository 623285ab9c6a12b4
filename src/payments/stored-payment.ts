import type { Unit } from "../amounts/amount.ts";
import type { Steps } from "../db/schema.ts";
import { fragment, query, type RowOf, type Statement, statement } from "../db/sql.ts";
import { payments } from "../db/tables.ts";
import { accountSql, type WriteContext } from "../ledger/account.ts";
import type { PaymentChange } from "./event.ts";
import type { Fact } from "./facts.ts";

/** A balance that a payment granted. */
export interface StoredGrant {
  readonly balanceId: string;
  readonly accountId: number;
  readonly userId: string;
  readonly packId: string;
  readonly packItemId: string;
  readonly unit: Unit;
  readonly initialSteps: Steps;
  readonly remainingSteps: Steps;
  readonly expiresAtMs: number;
  readonly grantedAtMs: number;
  readonly grantSeq: number;
  /** The share that was applied last. */
  readonly part: number;
  readonly of: number;
  readonly dueSteps: Steps;
  readonly takenSteps: Steps;
  readonly isSurplus: 0 | 1;
}

const paymentColumns = {
  id: payments.id,
  status: payments.status,
  reason: payments.reason,
  customer: payments.customer,
  settledBy: payments.settledBy,
  tellAtMs: payments.tellAtMs,
  version: payments.version,
  writtenBy: payments.writtenBy,
  createdAtMs: payments.createdAtMs,
};

type Row = RowOf<typeof paymentColumns> & {
  readonly namesJson: string;
  readonly factsJson: string;
  readonly grantsJson: string;
  readonly eventsJson: string;
  /** The user of its customer. */
  readonly customerUser: string | null;
};

export interface StoredEvent {
  readonly eventId: string;
  readonly type: string;
  readonly at: number;
  readonly outcome: Outcome;
}

/** What a delivery did (S5). */
export const OUTCOMES = ["granted", "taken", "restored", "unmatched", "remembered", "ignored"] as const;
export type Outcome = (typeof OUTCOMES)[number];

export interface StoredPayment extends Omit<Row, "namesJson" | "factsJson" | "grantsJson" | "eventsJson"> {
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  readonly grants: readonly StoredGrant[];
}

const ofPayment = "environment_id = p.environment_id AND payment_id = p.id";
const queryPayments = query<Row>({
  ...paymentColumns,
  namesJson: fragment`(SELECT json_group_array(name) FROM payment_names WHERE ${ofPayment})`,
  factsJson: fragment`(
    SELECT json_group_array(json_object('kind', kind, 'id', id, 'at', at_seconds, 'userId', user_id, 'data', json(data)))
    FROM payment_facts WHERE ${ofPayment}
  )`,
  grantsJson: fragment`(
    SELECT json_group_array(json_patch(json_object('balanceId', g.balance_id, 'accountId', g.account_id, 'part', g.part,
      'of', g.of_parts, 'dueSteps', g.due_steps, 'takenSteps', g.taken_steps, 'isSurplus', g.is_surplus),
      json_object('userId', a.user_id, 'packId', b.pack_id, 'packItemId', b.pack_item_id, 'unit', b.unit,
      'initialSteps', b.initial_steps, 'remainingSteps', b.remaining_steps, 'expiresAtMs', b.expires_at_ms,
      'grantedAtMs', b.granted_at_ms, 'grantSeq', b.grant_seq)))
    FROM payment_grants AS g
    CROSS JOIN credit_balances AS b ON b.account_id = g.account_id AND b.id = g.balance_id
    CROSS JOIN accounts AS a ON a.id = g.account_id
    WHERE g.environment_id = p.environment_id AND g.payment_id = p.id
  )`,
  eventsJson: fragment`(
    SELECT json_group_array(json_object('eventId', event_id, 'type', type, 'at', at_seconds, 'outcome', outcome))
    FROM payment_events WHERE ${ofPayment}
  )`,
  customerUser: fragment`(
    SELECT user_id FROM stripe_customers AS c WHERE c.environment_id = p.environment_id AND c.customer = p.customer
  )`,
});

/** The payments that have some of these names. */
export const selectPayments = queryPayments`
  FROM payments AS p WHERE p.environment_id = :environmentId AND p.id IN (
    SELECT payment_id FROM payment_names
    WHERE environment_id = :environmentId AND name IN (SELECT value FROM json_each(:names))
  )`;

const after = fragment`p.environment_id = :environmentId
  AND (p.created_at_ms, p.id) < (CAST(:beforeMs AS INTEGER), :beforeId)
  ORDER BY p.created_at_ms DESC, p.id DESC LIMIT :limit`;
/** A page of payments, newest first. */
export const selectPage = queryPayments`FROM payments AS p INDEXED BY payments_created WHERE ${after}`;
export const selectPageOf = queryPayments`
  FROM payments AS p INDEXED BY payments_status WHERE p.status = :status AND ${after}`;

/** A name of each payment of a customer that is unmatched because nobody knew the user. */
export const selectUnmatchedOf = statement<{ environmentId: number; customer: string }, { name: string }>`
  SELECT (SELECT name FROM payment_names WHERE environment_id = p.environment_id AND payment_id = p.id LIMIT 1) AS name
  FROM payments AS p INDEXED BY payments_customer
  WHERE environment_id = :environmentId AND customer = :customer AND status = 'unmatched' AND reason = 'no_user'
  ORDER BY created_at_ms, id`;

export const selectCustomer = statement<{ environmentId: number; customer: string }, { userId: string; at: number }>`
  SELECT user_id AS userId, at_seconds AS at FROM stripe_customers
  WHERE environment_id = :environmentId AND customer = :customer`;

/** Reads rows of `queryPayments`, whose JSON SQLite made of what Purser wrote. */
export function readPayment({ namesJson, factsJson, grantsJson, ...row }: Row): StoredPayment {
  return {
    ...row,
    names: JSON.parse(namesJson) as string[],
    facts: JSON.parse(factsJson) as Fact[],
    grants: (JSON.parse(grantsJson) as StoredGrant[]).toSorted((a, b) => a.grantSeq - b.grantSeq),
  };
}

export function readEvents({ eventsJson }: Pick<Row, "eventsJson">): readonly StoredEvent[] {
  return (JSON.parse(eventsJson) as StoredEvent[]).toSorted((a, b) => a.at - b.at);
}

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
  /** The grants of which all is due, because another grant of the payment came first. */
  readonly surplus: readonly string[];
  readonly event: Pick<PaymentChange, "eventId" | "type" | "at"> | null;
  readonly outcome: Outcome;
}

/** Statements that store a payment. They abort with `guard_payment` or `payment_names_taken` where it changed since. */
export function storePayment(write: PaymentWrite): Statement[] {
  const { environmentId, nowMs, writtenBy, known, id, status, reason, customer, settledBy, tellAtMs, outcome } = write;
  const [kept, ...others] = known;
  const values = { environmentId, id, status, reason, customer, settledBy, tellAtMs, writtenBy };
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
  createdAtMs: number;
};

const insertPayment = statement<PaymentValues>`
  INSERT INTO payments (
    environment_id, id, status, reason, customer, settled_by, tell_at_ms, version, written_by, created_at_ms
  ) VALUES (:environmentId, :id, :status, :reason, :customer, :settledBy, :tellAtMs, 1, :writtenBy, :createdAtMs)`;

const updatePayment = statement<PaymentValues>`
  UPDATE payments SET status = :status, reason = :reason, customer = :customer, settled_by = :settledBy,
    tell_at_ms = :tellAtMs, version = version + 1, written_by = :writtenBy, created_at_ms = :createdAtMs
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
  WHERE ${ofOthers} OR (environment_id = :environmentId AND payment_id = :id)`;
const deleteFacts = statement<Merge>`DELETE FROM payment_facts WHERE ${ofOthers}`;
const deletePayments = statement<Merge>`
  DELETE FROM payments WHERE environment_id = :environmentId AND id IN (SELECT value FROM json_each(:otherIds))`;

const insertNames = statement<{ environmentId: number; id: string; names: string }>`
  INSERT INTO payment_names (environment_id, name, payment_id)
  SELECT CAST(:environmentId AS INTEGER), value, :id FROM json_each(:names)`;

const upsertFacts = statement<{ environmentId: number; id: string; facts: string }>`
  INSERT INTO payment_facts (environment_id, payment_id, kind, id, at_seconds, user_id, data)
  SELECT CAST(:environmentId AS INTEGER), :id, value ->> 'kind', value ->> 'id', value ->> 'at', value ->> 'userId',
    value -> 'data'
  FROM json_each(:facts) WHERE 1
  ON CONFLICT (environment_id, payment_id, kind, id)
  DO UPDATE SET at_seconds = excluded.at_seconds, user_id = excluded.user_id, data = excluded.data`;

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

/** Notes the balances that were granted earlier in the batch as the payment's. */
export const insertGrants = statement<WriteContext & { paymentId: string; balanceIds: string }>`
  INSERT INTO payment_grants (
    balance_id, environment_id, payment_id, account_id, part, of_parts, due_steps, taken_steps, is_revoked, is_surplus
  )
  SELECT value, CAST(:environmentId AS INTEGER), :paymentId, ${accountSql}, 0, 1, 0, 0, 0, 0 FROM json_each(:balanceIds)`;
