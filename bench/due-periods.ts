/**
 * A first of the month: very many users whose next period begins in the same second, granted by the cron while debits go on.
 * `npm run bench:scale` runs it with 100,000 users; `USERS_DUE=1000 node bench/due-periods.ts` with fewer.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundle } from "./bundle.ts";
import { prepare, runAll, SECRET_KEY, serve } from "./serve.ts";
import { table, verdict } from "./table.ts";

const USERS = Number(process.env.USERS_DUE ?? 100_000);
const CONNECTIONS = 5;
/** A run of the cron comes once a minute. */
const RUNS_MAX = 30;

const directory = mkdtempSync(join(tmpdir(), "purser-periods-"));
const served = await serve(await bundle("src/index.ts"), directory);
try {
  await prepare(served.db);
  const beginsMs = Date.now();
  const userId = "'user_' || printf('%06d', value)";
  await runAll(served.db, [
    `WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < ${USERS})
     INSERT INTO accounts (environment_id, user_id) SELECT 1, ${userId} FROM n`,
    `INSERT INTO recurring_grants (account_id, ordinal, environment_id, id, pack_id, pack_name, every, anchor_ms,
       rollover_periods, id_seed, state, last_n, next_at_ms, counted_balances, created_at_ms, request_hash)
     SELECT id, 1, 1, 'rec_' || user_id, 'cpk_bench', 'Bench', 'month', ${beginsMs}, 0, hex(randomblob(11)), 'active', 0,
       ${beginsMs}, 3, ${beginsMs}, '' FROM accounts`,
  ]);
  const countOf = async (what: string) =>
    (await served.db.prepare(`SELECT count(*) AS n FROM ${what}`).first<number>("n")) ?? 0;
  let isOver = false;
  const times: number[] = [];
  const debit = async (connection: number) => {
    for (let index = 0; !isOver; index++) {
      const user = `user_${String(1 + ((connection * 7_919 + index) % USERS)).padStart(6, "0")}`;
      const body = { eventId: `e${connection}-${index}`, userId: user, event: "chat" };
      const headers = { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" };
      const startMs = performance.now();
      const answer = await fetch(`${served.url}/api/v1/usage/events`, {
        ...{ method: "POST", headers, body: JSON.stringify(body) },
      });
      if (!answer.ok) throw new Error(`A debit was answered ${answer.status}: ${await answer.text()}`);
      await answer.arrayBuffer();
      times.push(performance.now() - startMs);
    }
  };
  const debits = Promise.all(Array.from({ length: CONNECTIONS }, (_, connection) => debit(connection)));
  const startMs = performance.now();
  const runs: number[] = [];
  let left = USERS;
  while (left > 0 && runs.length < RUNS_MAX) {
    const runMs = performance.now();
    await served.cron();
    runs.push((performance.now() - runMs) / 1_000);
    left = await countOf(`accounts WHERE recurring_due_at_ms <= ${beginsMs}`);
  }
  const seconds = (performance.now() - startMs) / 1_000;
  isOver = true;
  await debits;
  times.sort((a, b) => a - b);
  const rows = (await countOf("credit_balances")) + (await countOf("credit_ledger")) - (await countOf("usage_events"));
  console.log(
    table(
      [
        "Users due at once",
        "Left",
        "Runs of the cron",
        "Longest run, s",
        "All runs, s",
        "Balances and entries",
        "Debits meanwhile",
        "p99, ms",
        "Within 30 runs",
      ],
      [
        [
          ...[USERS, left, runs.length, Math.max(...runs).toFixed(1), seconds.toFixed(0), rows, times.length],
          ...[Math.round(times[Math.floor(times.length * 0.99)] ?? 0), verdict(left === 0)],
        ].map(String),
      ],
    ),
  );
} finally {
  await served.close();
  rmSync(directory, { recursive: true, force: true });
}
