/**
 * What the cron's sums cost at full size: `npm run bench:books`. The day sums of 1,000,000 usage events of 10,000 users, and the
 * statement of a month of 100,000 users, of whom each has a balance and ten entries. `BENCH_SIZE=0.01` takes a hundredth.
 */
import type { Cost } from "../test/support/counting-d1.ts";
import { ADMIN_TOKEN, type Bench, makeApp, startBench } from "./support.ts";

const SIZE = Number(process.env.BENCH_SIZE ?? "1");
const USERS = Math.round(100_000 * SIZE);
const ENTRIES_A_USER = 10;
/** Users with usage, and how much each. */
const USING = Math.round(10_000 * SIZE);
const EVENTS_A_USER = 100;
const CHUNK = 1_000;
const DAY_MS = 86_400_000;

const whole = (value: number): string => Math.round(value).toLocaleString("en");

/** The month before this one. */
const now = new Date();
const fromMs = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1);
const month = new Date(fromMs).toISOString().slice(0, 7);

const numbers = (from: number, to: number) =>
  `WITH RECURSIVE n(i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to})`;

/** Users with a balance each, granted in the month, and debits of it. */
async function fillUsers(db: D1Database, environmentId: number): Promise<void> {
  for (let from = 1; from <= USERS; from += CHUNK) {
    const to = Math.min(from + CHUNK - 1, USERS);
    const isHere = `a.environment_id = ${environmentId} AND a.user_id IN (SELECT 'u' || i FROM n)`;
    const statements = [
      `${numbers(from, to)} INSERT INTO accounts (environment_id, user_id) SELECT ${environmentId}, 'u' || i FROM n`,
      `${numbers(from, to)} INSERT INTO credit_balances (account_id, id, pack_id, pack_name, pack_item_id, unit, matches, priority,
         initial_steps, remaining_steps, has_remaining, source, external_ref, granted_at_ms, expires_at_ms, grant_seq, last_seq)
       SELECT a.id, 'crb_' || a.id, 'cpk_seed', 'Seed', 'cpi_seed', 'tokens', '[]', 100, 1000000, 1000000, 1, 'purchase',
         'order', ${fromMs + 1}, 9007199254740991, 1, 1
       FROM accounts AS a WHERE ${isHere}`,
      ...Array.from(
        { length: ENTRIES_A_USER - 1 },
        (
          _,
          at,
        ) => `${numbers(from, to)} INSERT INTO credit_ledger (account_id, seq, balance_id, pack_id, unit, delta_steps,
           balance_after_steps, previous_seq, reason, cause, written_by, occurred_at_ms, is_revoked)
         SELECT a.id, ${at + 2}, b.id, b.pack_id, b.unit, -1000, b.remaining_steps - 1000, ${at + 1}, 'event_committed', 'usage',
           'cron', ${fromMs + (at + 1) * DAY_MS}, 0
         FROM accounts AS a JOIN credit_balances AS b ON b.account_id = a.id WHERE ${isHere}`,
      ),
    ];
    await db.batch(statements.map((statement) => db.prepare(statement)));
  }
}

/** Usage of the first users, over ten days, with three models. */
async function fillUsage(db: D1Database, environmentId: number): Promise<void> {
  const users = Math.max(1, Math.floor(CHUNK / 10));
  for (let from = 1; from <= USING; from += users) {
    const to = Math.min(from + users - 1, USING);
    const statement = `${numbers(from, to)}, m(j) AS (SELECT 1 UNION ALL SELECT j + 1 FROM m WHERE j < ${EVENTS_A_USER})
      INSERT INTO usage_events (account_id, occurred_by_ms, seq, environment_id, event_id, event, model, count_steps,
        tokens_steps, occurred_at_ms, received_at_ms, request_hash, debits)
      SELECT a.id, ${fromMs} + j * ${DAY_MS / 10}, j, a.environment_id, a.id || ' ' || j, 'chat', 'model-' || (j % 3), 1000, 5000,
        ${fromMs} + j * ${DAY_MS / 10}, ${fromMs}, '', '[]'
      FROM accounts AS a, m WHERE a.environment_id = ${environmentId} AND a.user_id IN (SELECT 'u' || i FROM n)`;
    await db.prepare(statement).run();
  }
}

/** Runs the cron until `isDone`, and prints what its runs cost. */
async function runCron({ urls }: Bench, what: string, rows: number, isDone: () => Promise<boolean>): Promise<void> {
  const ask = async (path: string) => (await fetch(urls.counted + path)).json();
  await ask("/bench/cost");
  const timesMs: number[] = [];
  const costs: Cost[] = [];
  while (!(await isDone())) {
    const startMs = performance.now();
    await ask("/bench/cron");
    timesMs.push(performance.now() - startMs);
    costs.push((await ask("/bench/cost")) as Cost);
    if (timesMs.length > 10_000) throw new Error(`${what} are not done after ${timesMs.length} runs`);
  }
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const read = sum(costs.map(({ rowsRead }) => rowsRead));
  const written = sum(costs.map(({ rowsWritten }) => rowsWritten));
  console.log(
    `${whole(rows)} ${what}: ${timesMs.length} runs of the cron, ${(sum(timesMs) / 1_000).toFixed(1)} s, the longest ` +
      `${(Math.max(...timesMs) / 1_000).toFixed(1)} s and ${whole(Math.max(...costs.map(({ rowsRead }) => rowsRead)))} rows read, ` +
      `${(read / rows).toFixed(2)} rows read and ${(written / rows).toFixed(3)} written for each`,
  );
}

const bench = await startBench({ counted: "bench/workers/counted.ts" });
try {
  const { appId, environmentId } = await makeApp(bench.db);
  const first = async (sql: string) => (await bench.db.prepare(sql).first<number>("n")) ?? 0;
  await fillUsers(bench.db, environmentId);
  await fillUsage(bench.db, environmentId);
  await runCron(bench, "usage events summed by day", USING * EVENTS_A_USER, async () => {
    return (await first("SELECT count(*) AS n FROM usage_to_sum")) === 0;
  });
  const summed = await first("SELECT sum(events) AS n FROM usage_days");
  if (summed !== USING * EVENTS_A_USER) throw new Error(`${summed} events were summed`);

  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`${bench.urls.counted}/api/v1/admin/apps/${appId}/${path}`, {
      method,
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return answer.json() as Promise<{
      statementId: string;
      status: string;
      lines: readonly Record<string, unknown>[] | null;
    }>;
  };
  const { statementId } = await call("POST", "statements", { mode: "live", month });
  await runCron(bench, "users in a statement", USERS, async () => {
    return (await call("GET", `statements/${statementId}`)).status === "ready";
  });
  const { lines } = await call("GET", `statements/${statementId}`);
  const spent = USERS * (ENTRIES_A_USER - 1);
  if (lines?.length !== 1 || lines[0]?.spent !== spent) throw new Error(`the statement says ${JSON.stringify(lines)}`);
} finally {
  await bench.close();
}
