/** SQL that finds counters of usage limits that are not the sum of the counted usage in their window (Q3). */
export const wrongCounters = (afterAccountId: number): string => `
  SELECT c.limit_id, c.account_id, c.used_minor FROM usage_counters AS c WHERE c.account_id > ${afterAccountId} AND c.used_minor <> coalesce((
     SELECT sum(n.value ->> 'minor') FROM usage_events AS e, json_each(e.counted) AS n
     WHERE e.account_id = c.account_id AND n.value ->> 'limitId' = c.limit_id AND n.value ->> 'endMs' = c.end_ms
       AND iif(n.value ->> 'isMember', e.member_number, 0) = c.member_number
   ), 0) + coalesce((
     SELECT sum(n.value ->> 'minor') FROM reservations AS r, json_each(r.counted) AS n
     WHERE r.account_id = c.account_id AND r.state = 'open' AND n.value ->> 'limitId' = c.limit_id
       AND n.value ->> 'endMs' = c.end_ms AND iif(n.value ->> 'isMember', r.member_number, 0) = c.member_number
   ), 0)`;

const SUMMED = ["count", "tokens", "seconds", "cents", "cost", "debited"];
/** The amount that balances in cents paid of an event, which no column of the event has. The last unit is cents. */
const DEBITED = "(SELECT sum(leg.value ->> 2) FROM json_each(e.debits) AS leg WHERE leg.value ->> 1 = 3)";
const minorOf = (name: string): string => (name === "debited" ? DEBITED : `e.${name}_minor`);
const eachSum = (of: (name: string) => string): string => SUMMED.map(of).join();

/** SQL that finds day sums that differ from the events before the account's mark (U18), of accounts with a greater id. */
export const wrongDaySums = (afterAccountId: number): string => `
  SELECT account_id, day FROM (
   SELECT d.account_id, d.day, d.event, d.model, d.events, d.without_cost, ${eachSum((of) => `d.${of}_high, d.${of}_low`)}
   FROM usage_days AS d JOIN accounts AS a ON a.id = d.account_id AND a.environment_id = d.environment_id
   WHERE d.account_id > ${afterAccountId}
   UNION ALL
   SELECT e.account_id, e.occurred_at_ms / 86400000, e.event, coalesce(e.model, ''), -1, -(e.cost_minor IS NULL),
     ${eachSum((of) => `-coalesce(${minorOf(of)} >> 26, 0), -coalesce(${minorOf(of)} & 67108863, 0)`)}
   FROM ${summedEvents(afterAccountId)}
 ) GROUP BY account_id, day, event, model
 HAVING sum(events) <> 0 OR sum(without_cost) <> 0
   OR ${SUMMED.map((of) => `sum(${of}_high) <> 0 OR sum(${of}_low) <> 0`).join(" OR ")}`;

/** SQL that finds sums of meters of a day that differ from those events' meters (PR6), unless the day has the most names. */
export const wrongMeterSums = (afterAccountId: number): string => `
  SELECT account_id, day, name FROM (
   SELECT d.account_id, d.day, d.event, d.model, m.key AS name, m.value ->> 0 AS whole, m.value ->> 1 AS rest,
     (SELECT count(*) FROM json_each(d.meters)) AS names
   FROM usage_days AS d JOIN accounts AS a ON a.id = d.account_id AND a.environment_id = d.environment_id,
     json_each(d.meters) AS m WHERE d.account_id > ${afterAccountId}
   UNION ALL
   SELECT account_id, day, event, model, name, -(amount >> 26), -(amount & 67108863), (
       SELECT count(*) FROM usage_days AS d, json_each(d.meters) WHERE d.account_id = sent.account_id AND d.day = sent.day
         AND d.event = sent.event AND d.model = sent.model) FROM (
     SELECT account_id, day, event, model, name, CAST(iif(instr(text, '.') = 0, text || '000',
       replace(substr(text || '00', 1, instr(text, '.') + 3), '.', '')) AS INTEGER) AS amount FROM (
         SELECT e.account_id, e.occurred_at_ms / 86400000 AS day, e.event, coalesce(e.model, '') AS model, m.key AS name,
           e.meters -> m.fullkey AS text FROM ${summedEvents(afterAccountId, ", json_each(e.meters) AS m")}
   )) AS sent
 ) GROUP BY account_id, day, event, model, name
 HAVING (sum(whole) <> 0 OR sum(rest) <> 0) AND max(names) < 200`;

const summedEvents = (afterAccountId: number, joined = ""): string => `usage_events AS e
   LEFT JOIN usage_to_sum AS t ON t.environment_id = e.environment_id AND t.account_id = e.account_id ${joined}
   WHERE e.account_id > ${afterAccountId} AND (t.seq IS NULL OR e.seq < t.seq)`;
