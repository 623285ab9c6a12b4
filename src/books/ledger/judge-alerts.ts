import { fragment, nowMsSql, type Statement, statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { endpointsOf, type MessageType } from "../../webhooks/message.ts";
import { deliveryTimes, intoDeliveries, intoMessages, type Outgoing, wantedMessages } from "../../webhooks/outbox.ts";
import { type WriteContext, writingValues } from "./account.ts";
import { amountSql } from "./debits.ts";
import type { Motion } from "./motion.ts";
import { settledEntries } from "./owed.ts";
import { noMotionSql, thresholdSql, watchedSql } from "./watched-sql.ts";

const userSql = fragment`SELECT id FROM accounts WHERE environment_id = :environmentId AND user_id = :userId`;

/**
 * The last `:entries` entries of the user, or those of the events that settle reservations; and what their balances paid then of what
 * they owed (C21), as settlements have their entries anywhere in the batch.
 */
const entriesSql = fragment`
  WITH watched (account_id) AS MATERIALIZED (${userSql}),
  motion (account_id, balance_id, delta, was_revoked) AS MATERIALIZED (
    SELECT o.account_id, o.balance_id, o.delta, coalesce((
      SELECT is_revoked FROM credit_ledger AS p WHERE p.account_id = o.account_id AND p.seq = o.previous_seq
    ), 0)
    FROM (
      SELECT account_id, balance_id, sum(delta_steps) AS delta, previous_seq, min(seq)
      FROM (
        SELECT * FROM (
          SELECT * FROM credit_ledger WHERE account_id = (SELECT account_id FROM watched)
          ORDER BY seq DESC LIMIT iif(:eventIds IS NULL, CAST(:entries AS INTEGER), 0)
        )
        UNION SELECT * FROM ${settledEntries(fragment`(SELECT account_id FROM watched)`)} AND iif(
          l.reason = 'event_committed', l.event_id IN (SELECT value FROM json_each(:eventIds)),
          l.reason = 'admin_adjust' AND l.is_revoked = 0 AND l.reservation_id IN (SELECT value FROM json_each(:settled))
        )
      )
      GROUP BY balance_id
    ) AS o
  )`;

const typeOf = fragment`iif(l.id = '', 'credits.depleted', 'credits.low')`;

/** The statement that writes the messages of alerts that go off. `from` and `leaves` as in `watchedSql`. */
export const goOffSql = (from: string, leaves: string): string => fragment`
  ${intoMessages}
  ${watchedSql({ from, leaves, isAsked: fragment`:endpoints -> ('$."' || ${typeOf} || '"') IS NOT NULL` })},
  crossed AS (
    SELECT l.*, ${thresholdSql("live_issued")} AS of_live, ${thresholdSql("all_issued")} AS of_all FROM l
  )
  SELECT :messageId || printf('%06d', row_number() OVER (ORDER BY l.account_id, l.id = '', l.id)),
    CAST(:environmentId AS INTEGER), ${typeOf}, ${nowMsSql}, a.user_id,
    json_set(iif(l.id = '', json_object('userId', a.user_id), json_object(
      'userId', a.user_id, 'alertId', l.id, 'name', l.name, 'unit', l.unit, 'remaining', ${amountSql("l.live_after", "l.unit")},
      'threshold', ${amountSql("iif(l.live_before >= l.of_live AND l.live_after < l.of_live, l.of_live, l.of_all)", "l.unit")}
    )), '$.seq', (SELECT seq FROM credit_ledger WHERE account_id = a.id ORDER BY seq DESC LIMIT 1))
  FROM crossed AS l CROSS JOIN accounts AS a ON a.id = l.account_id
  WHERE ((l.live_before >= l.of_live AND l.live_after < l.of_live) OR (l.all_before >= l.of_all AND l.all_after < l.of_all))
    AND NOT EXISTS (
      SELECT 1 FROM alert_states AS s
      WHERE s.environment_id = :environmentId AND s.alert_id = l.id AND s.account_id = l.account_id
    )
  RETURNING id`;

type Judged = WriteContext & {
  entries: number;
  eventIds: string | null;
  settled: string | null;
  endpoints: string;
  messageId: string;
};
const goOff = statement<Judged, { id: string }>`${goOffSql(entriesSql, "0")}`;

/** The messages whose ids begin with `:messageId`. The plus has SQLite find them by their ids, not all of the environment. */
const ownMessages = fragment`webhook_messages AS m
  ON m.id > :messageId AND m.id < :messageId || '~' AND +m.environment_id = :environmentId`;

/** Sends the messages whose ids begin with `messageId` to the endpoints of their types, `{ type: [endpointId] }`. */
export const deliverOwn = statement<{
  environmentId: number;
  messageId: string;
  endpoints: string;
  atMs: number;
  dueAtMs: number;
}>`
  ${intoDeliveries}
  SELECT e.value, m.id, 'pending', CAST(:atMs AS INTEGER), CAST(:dueAtMs AS INTEGER)
  FROM (SELECT 1) CROSS JOIN ${ownMessages} CROSS JOIN json_each(:endpoints, '$."' || m.type || '"') AS e`;

/** Keeps which alerts went off, by their messages, whose ids begin with `messageId`. */
export const keepGoneOff = statement<{ environmentId: number; messageId: string }>`
  INSERT INTO alert_states (environment_id, alert_id, account_id)
  SELECT a.environment_id, coalesce(m.data ->> 'alertId', ''), a.id
  FROM (SELECT 1) CROSS JOIN ${ownMessages}
  CROSS JOIN accounts AS a ON a.environment_id = m.environment_id AND a.user_id = m.subject
  WHERE m.type IN ('credits.low', 'credits.depleted')`;

const isGoneOff = fragment`EXISTS (
  SELECT 1 FROM alert_states AS s
  WHERE s.environment_id = :environmentId AND s.alert_id = l.id AND s.account_id = (${userSql})
)`;
const ofGoneOff = fragment`
  WITH watched (account_id) AS MATERIALIZED (${userSql} AND EXISTS (
    SELECT 1 FROM (
      SELECT id FROM alerts WHERE environment_id = :environmentId UNION ALL SELECT ''
    ) AS l WHERE ${isGoneOff}
  )),
  ${noMotionSql}`;

/** Has alerts go off again that what the user has now is not below. */
const lift = statement<WriteContext>`
  DELETE FROM alert_states WHERE environment_id = :environmentId AND (alert_id, account_id) IN (
    ${watchedSql({ from: ofGoneOff, leaves: "0", isAsked: isGoneOff })}
    SELECT l.id, l.account_id FROM l WHERE l.live_after > 0 AND l.live_after >= ${thresholdSql("l.issued_after")}
  )`;

export const ALERT_TYPES = [{ type: "credits.low" }, { type: "credits.depleted" }] as const;

/** Statements that write messages which only the database knows. */
export interface MessageWrites {
  readonly statements: readonly Statement[];
  /** Which of them returns the messages that it wrote. */
  readonly returning?: Statement<{ id: string }>;
}

const NONE: MessageWrites = { statements: [] };

/**
 * The statements that judge a user's alerts by what a batch wrote (H5), also by what the reservations that it settled paid. They come after all its entries. None in an
 * environment without endpoints.
 */
export function alertWrites(
  ctx: TenantCtx,
  account: WriteContext & { readonly features: string | null },
  motions: readonly Motion[],
  settledIds: readonly string[],
): MessageWrites {
  const isSettling = settledIds.length > 0;
  if ((motions.length === 0 && !isSettling) || endpointsOf(account.features).length === 0) return NONE;
  const values = writingValues(account);
  const lifts = motions.some((motion) => motion.lifts) ? [lift(values)] : [];
  const wanted = wantedMessages(ctx, account.features, () => ALERT_TYPES);
  const [first] = wanted;
  if (first === undefined || (motions.every((motion) => motion.lifts) && !isSettling)) return { statements: lifts };
  const own = { environmentId: account.environmentId, messageId: first.id, endpoints: endpointsByType(wanted) };
  const eventIds = motions.flatMap((motion) => motion.eventIds ?? []);
  const returning = goOff({
    ...values,
    ...own,
    entries: motions.reduce((sum, motion) => sum + motion.entries, 0),
    eventIds: eventIds.length === 0 ? null : JSON.stringify(eventIds),
    settled: isSettling ? JSON.stringify(settledIds) : null,
  });
  return {
    statements: [returning, deliverOwn({ ...own, ...deliveryTimes(ctx) }), keepGoneOff(own), ...lifts],
    returning,
  };
}

/** The messages that the statements wrote, from the rows of the batch `all`. */
export function messagesAmong(
  { returning }: MessageWrites,
  all: readonly Statement[],
  rows: readonly unknown[][],
): readonly { readonly id: string }[] {
  // A batch answers in the order of its statements, and the type of this one says what its rows are.
  return returning === undefined ? [] : ((rows[all.indexOf(returning)] ?? []) as { id: string }[]);
}

/** For `deliverOwn`. */
export function endpointsByType(wanted: readonly Outgoing<{ readonly type: MessageType }>[]): string {
  return JSON.stringify(Object.fromEntries(wanted.map(({ type, endpointIds }) => [type, endpointIds])));
}
