import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { spread } from "./load.ts";
import { runAll, SECRET_KEY, type Served } from "./serve.ts";

/** The size of the database in bytes, as it reports it. */
export async function sizeOf(db: D1Database): Promise<number> {
  return (await db.prepare("SELECT 1").run()).meta.size_after;
}

/** Fills the database with other users' accounts and events, up to this size. */
export async function growTo(db: D1Database, bytes: number, ledgerRows: number): Promise<void> {
  // 200 balances with nine entries each: 2,000 ledger rows for each user.
  for (let user = 0; user < ledgerRows / 2_000; user++) {
    const account = { environmentId: 1, userId: `filler${user}` };
    await runAll(db, [...liveBalancesSql(account, 200), ...entriesSql(account, 200, 9)]);
  }
  for (let person = 0; (await sizeOf(db)) < bytes; person++) {
    await db
      .prepare(
        `INSERT INTO analytics_events (environment_id, distinct_id, seq, uuid, event, timestamp_ms, received_at_ms, properties)
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         SELECT 1, 'filler${person}', i, 'filler${person}-' || i, 'seen', i, i, '{"filler":"' || printf('%.*c', 900, 'x') || '"}' FROM n`,
      )
      .run();
  }
}

export interface Growth {
  readonly operation: string;
  /** Median time with the large database as a share of that with the small one. */
  readonly ratio: number;
}

const post = (path: string, body: object): [string, RequestInit] => [
  path,
  { method: "POST", body: JSON.stringify(body) },
];

/** A request of each operation. `name` is new each time. */
const operations: Record<string, (name: string) => [string, RequestInit]> = {
  list: () => ["/api/v1/credits?userId=u1", {}],
  history: () => ["/api/v1/credits/history?userId=u1", {}],
  grant: (name) => post("/api/v1/credits/grant", { userId: `g ${name}`, packId: "cpk_bench", externalRef: name }),
  "usage event": (name) =>
    post("/api/v1/usage/events", {
      eventId: name,
      userId: "u1",
      event: "chat.done",
      quantities: { count: 0, tokens: 0.001 },
    }),
  reserve: (name) =>
    post("/api/v1/usage/reservations", {
      reservationId: `res_${name}`,
      userId: "u2",
      event: "chat.done",
      quantities: { count: 0, tokens: 0.001 },
    }),
};

async function timed(served: Served, [path, init]: [string, RequestInit]): Promise<number> {
  const startedMs = performance.now();
  const response = await fetch(served.url + path, {
    ...init,
    headers: { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" },
  });
  await response.arrayBuffer();
  const tookMs = performance.now() - startedMs;
  if (response.status !== 200) throw new Error(`${path}: ${response.status}`);
  return tookMs;
}

/** Sends the same request to both in turn, one at a time. */
export async function compareGrowth(small: Served, large: Served, rounds: number): Promise<Growth[]> {
  const grown: Growth[] = [];
  for (const [operation, request] of Object.entries(operations)) {
    const times = { small: [] as number[], large: [] as number[] };
    for (let round = 0; round < rounds; round++) {
      const inTurn = round % 2 === 0 ? (["small", "large"] as const) : (["large", "small"] as const);
      for (const side of inTurn) {
        const tookMs = await timed(
          side === "small" ? small : large,
          request(`${operation.replace(" ", "-")}-${side}-${round}`),
        );
        if (round >= 20) times[side].push(tookMs);
      }
    }
    const ratio = spread(times.large).median / spread(times.small).median;
    console.log(`${operation}: ${ratio.toFixed(2)} times the small database's median`);
    grown.push({ operation, ratio });
  }
  return grown;
}
