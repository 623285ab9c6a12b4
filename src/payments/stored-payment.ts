import type { Unit } from "../books/amounts/amount.ts";
import { aboutAccount } from "../books/ledger/account.ts";
import type { Steps } from "../db/schema.ts";
import { fragment, query, type RowOf, statement } from "../db/sql.ts";
import { payments } from "../db/tables.ts";
import type { Fact } from "./facts.ts";
import type { StoredLine } from "./line.ts";

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
  /** The line of an invoice that it was granted for (line.ts). Null: another payment's. */
  readonly line: string | null;
  /** What was due of it when it was moved last. */
  readonly dueSteps: Steps;
  readonly takenSteps: Steps;
  /** What the operator, or an erasure, took of it: revokes, and adjustments in sum. */
  readonly operatorSteps: number;
  readonly isSurplus: 0 | 1;
  /** Whether anybody but its payment revoked it: then it gets nothing back. */
  readonly isClosed: 0 | 1;
  readonly isErased: 0 | 1;
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
  readonly linesJson: string;
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

export interface StoredPayment
  extends Omit<Row, "namesJson" | "factsJson" | "grantsJson" | "eventsJson" | "linesJson"> {
  readonly names: readonly string[];
  readonly facts: readonly Fact[];
  readonly grants: readonly StoredGrant[];
  readonly lines: readonly StoredLine[];
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
    SELECT json_group_array(json_patch(json_object('balanceId', g.balance_id, 'accountId', g.account_id, 'line', g.line,
      'dueSteps', g.due_steps, 'takenSteps', g.taken_steps, 'operatorSteps', g.operator_steps, 'isSurplus', g.is_surplus,
      'isClosed', b.revoked_at_ms IS NOT NULL AND g.is_revoked = 0, 'isErased', a.is_erased),
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
  linesJson: "p.lines",
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

/** The trials that a user had, among some references (S3). */
export const selectTrials = aboutAccount<{ refs: string }, { externalRef: string }>(
  (account) => statement`
    SELECT DISTINCT external_ref AS externalRef FROM credit_balances INDEXED BY credit_balances_external_ref
    WHERE account_id = ${account} AND external_ref IN (SELECT value FROM json_each(:refs))`,
);

/** Reads rows of `queryPayments`, whose JSON SQLite made of what Purser wrote. */
export function readPayment({ namesJson, factsJson, grantsJson, linesJson, ...row }: Row): StoredPayment {
  return {
    ...row,
    names: JSON.parse(namesJson) as string[],
    facts: JSON.parse(factsJson) as Fact[],
    grants: (JSON.parse(grantsJson) as StoredGrant[]).toSorted((a, b) => a.grantSeq - b.grantSeq),
    lines: JSON.parse(linesJson) as StoredLine[],
  };
}

export function readEvents({ eventsJson }: Pick<Row, "eventsJson">): readonly StoredEvent[] {
  return (JSON.parse(eventsJson) as StoredEvent[]).toSorted((a, b) => a.at - b.at);
}
