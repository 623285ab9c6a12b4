/** SQL that finds counters of usage limits that are not the sum of the counted usage in their window (Q3). */
export const wrongCounters = (afterAccountId: number): string => `
  SELECT c.limit_id, c.account_id, c.used_minor FROM usage_counters AS c WHERE c.account_id > ${afterAccountId} AND c.used_minor <> coalesce((
     SELECT sum(n.value ->> 'minor') FROM usage_events AS e, json_each(e.counted) AS n
     WHERE e.account_id = c.account_id AND n.value ->> 'limitId' = c.limit_id AND n.value ->> 'endMs' = c.end_ms
   ), 0) + coalesce((
     SELECT sum(n.value ->> 'minor') FROM reservations AS r, json_each(r.counted) AS n
     WHERE r.account_id = c.account_id AND r.state = 'open' AND n.value ->> 'limitId' = c.limit_id
       AND n.value ->> 'endMs' = c.end_ms
   ), 0)`;

/** SQL that finds day sums that differ from the events before the account's mark (U18), of accounts with a greater id. */
export const wrongDaySums = (afterAccountId: number): string => `
  SELECT account_id, day FROM (
   SELECT d.* FROM usage_days AS d JOIN accounts AS a ON a.id = d.account_id AND a.environment_id = d.environment_id
   WHERE d.account_id > ${afterAccountId}
   UNION ALL
   SELECT e.environment_id, e.occurred_at_ms / 86400000, e.account_id, e.event, coalesce(e.model, ''), -1,
     ${["count", "tokens", "seconds", "cents"].map((unit) => `-coalesce(e.${unit}_minor >> 26, 0), -coalesce(e.${unit}_minor & 67108863, 0)`).join()}
   FROM usage_events AS e
   LEFT JOIN usage_to_sum AS m ON m.environment_id = e.environment_id AND m.account_id = e.account_id
   WHERE e.account_id > ${afterAccountId} AND (m.seq IS NULL OR e.seq < m.seq)
 ) GROUP BY account_id, day, event, model
 HAVING sum(events) <> 0 OR sum(count_high) <> 0 OR sum(count_low) <> 0 OR sum(tokens_high) <> 0 OR sum(tokens_low) <> 0
   OR sum(seconds_high) <> 0 OR sum(seconds_low) <> 0 OR sum(cents_high) <> 0 OR sum(cents_low) <> 0`;
