import { env } from "cloudflare:workers";
import { expect } from "vitest";
import * as z from "zod";
import { type MessageType, messageData } from "../../src/webhooks/message-data.ts";
import { wrongCounters, wrongDaySums, wrongMeterSums } from "./sums-sql.ts";

const dataSchemas = Object.fromEntries(
  Object.entries(messageData).map(([type, [, shape]]) => [type, z.strictObject(shape as z.ZodRawShape)]),
) as Record<MessageType, z.ZodObject>;

/** The latest account and environment of earlier test files. migrate.ts sets them at the start of each file. */
const before = { account: 0, environment: 0 };

export async function rememberEarlierRows(): Promise<void> {
  const last = await env.DB.prepare(
    `SELECT (SELECT coalesce(max(id), 0) FROM accounts) AS account,
       (SELECT coalesce(max(id), 0) FROM environments) AS environment`,
  ).first<{ account: number; environment: number }>();
  Object.assign(before, last);
}

/** SQL that finds rows that must not exist, by what they would be. */
const mustFindNothing = (): readonly (readonly [what: string, text: string])[] => [
  [
    "balances that are not the sum of their ledger",
    `SELECT b.id FROM credit_balances AS b
     LEFT JOIN (
       SELECT account_id, grant_seq, sum(delta_minor) AS total, max(seq) AS latest FROM credit_ledger
       WHERE account_id > ${before.account} GROUP BY account_id, grant_seq
     ) AS l ON l.account_id = b.account_id AND l.grant_seq = b.grant_seq
     WHERE b.account_id > ${before.account} AND (coalesce(l.total, 0) <> b.remaining_minor OR b.remaining_minor < 0
       OR b.has_remaining <> (b.remaining_minor > 0) OR l.latest <> b.last_seq)`,
  ],
  [
    "users whose ledger has gaps",
    `SELECT account_id FROM credit_ledger WHERE account_id > ${before.account}
     GROUP BY account_id HAVING max(seq) <> count(*) OR min(seq) <> 1`,
  ],
  [
    "ledger rows without a balance",
    `SELECT seq FROM credit_ledger AS l WHERE l.account_id > ${before.account}
       AND NOT EXISTS (SELECT 1 FROM credit_balances AS b WHERE b.account_id = l.account_id AND b.grant_seq = l.grant_seq)`,
  ],
  [
    "settled reservations that did not return exactly what they held",
    `SELECT r.id FROM reservations AS r CROSS JOIN json_each(r.legs) AS leg
     WHERE r.account_id > ${before.account} AND r.settled_seq IS NOT NULL AND NOT EXISTS (
       SELECT 1 FROM credit_ledger AS l
       CROSS JOIN credit_balances AS b ON b.account_id = l.account_id AND b.grant_seq = l.grant_seq
       WHERE l.account_id = r.account_id AND l.seq = r.settled_seq + leg.key AND l.reservation_number = r.reservation_number
         AND b.grant_seq = leg.value ->> 0 AND l.delta_minor = leg.value ->> 2
     )`,
  ],
  [
    "carries below 0",
    `SELECT p.id FROM stripe_payers AS p CROSS JOIN json_each(p.carries) AS carry
     WHERE (p.environment_id > ${before.environment} OR p.environment_id < 0)
       AND (carry.type <> 'integer' AND carry.value <> CAST(carry.value AS INTEGER) OR carry.value < 0)`,
  ],
  [
    "sums of money by day that differ from those of the payments",
    `SELECT environment_id, currency FROM (
       SELECT environment_id, currency, captured, refunded, withheld FROM money_days
       UNION ALL SELECT environment_id, currency, -captured, -refunded, -withheld FROM payments WHERE currency IS NOT NULL
     ) WHERE environment_id > ${before.environment} OR environment_id < 0 GROUP BY environment_id, currency
     HAVING sum(captured) <> 0 OR sum(refunded) <> 0 OR sum(withheld) <> 0`,
  ],
  [
    "balances that owe more than holds keep of them, or that are revoked and owe",
    `SELECT o.balance_id FROM refund_owed AS o
     LEFT JOIN credit_balances AS b ON b.account_id = o.account_id AND b.id = o.balance_id
     LEFT JOIN (
       SELECT r.account_id, r.created_at_seq, CAST(leg.value ->> 0 AS INTEGER) AS grant_seq, leg.value ->> 2 AS minor
       FROM reservations AS r CROSS JOIN json_each(r.legs) AS leg WHERE r.account_id > ${before.account} AND r.state = 'open'
     ) AS held ON held.account_id = o.account_id AND held.grant_seq = b.grant_seq AND held.created_at_seq < o.seq
     WHERE o.account_id > ${before.account} GROUP BY o.account_id, o.balance_id, o.seq
     HAVING b.id IS NULL OR b.revoked_at_ms IS NOT NULL OR o.owed_minor > coalesce(sum(held.minor), 0)`,
  ],
  [
    "accounts that owe more amounts than the bound",
    `SELECT account_id FROM refund_owed WHERE account_id > ${before.account} GROUP BY account_id HAVING count(*) > 5000`,
  ],
  ["counters that are not the sum of the usage in their window", wrongCounters(before.account)],
  ["day sums that differ from the events before their account's mark", wrongDaySums(before.account)],
  ["sums of meters of a day that differ from those events", wrongMeterSums(before.account)],
  [
    "ledger entries, events or reservations without an account",
    ["credit_ledger", "usage_events", "reservations"]
      .map(
        (table) => `SELECT account_id FROM ${table} AS t WHERE account_id > ${before.account}
          AND NOT EXISTS (SELECT 1 FROM accounts WHERE id = t.account_id)`,
      )
      .join(" UNION "),
  ],
];

/** Checks the ledgers and counters of this file's users, and the schemas of the newest messages. For `afterAll` of each test file. */
export async function expectLedgerInvariants(): Promise<void> {
  const searches = mustFindNothing();
  const newestMessages = env.DB.prepare(
    "SELECT type, data FROM webhook_messages WHERE environment_id > ? ORDER BY environment_id DESC, id DESC LIMIT 300",
  ).bind(before.environment);
  const answers = await env.DB.batch([...searches.map(([, text]) => env.DB.prepare(text)), newestMessages]);
  for (const [index, [what]] of searches.entries()) expect(answers[index]?.results, what).toEqual([]);
  const messages = answers.at(-1)?.results as { type: MessageType; data: string }[];
  for (const { type, data } of messages) {
    const { error } = dataSchemas[type].safeParse(JSON.parse(data));
    expect(error?.issues, `the data of ${type} does not match its schema: ${data}`).toBeUndefined();
  }
}
