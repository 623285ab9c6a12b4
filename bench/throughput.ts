import autocannon from "autocannon";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { runAll, SECRET_KEY, type Served, table } from "./serve.ts";

/** The users under load are `u0` to `u49`. */
const USERS = 50;
/** The connections, and the requests of one slice. A slice is short, so that other work of the machine affects both sides equally. */
const LOADS = [
  [1, 300],
  [50, 600],
] as const;

const headers = { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" };
let unique = 0;
const newName = (prefix: string) => `${prefix}_${process.pid}_${unique++}`;
const anyUser = () => `u${Math.floor(Math.random() * USERS)}`;
const usage = (tokens: number) => ({ event: "chat.done", quantities: { count: 0, tokens } });

/** A request, made when it is sent. `context` is shared by the requests of one round of a connection. */
type Made = { readonly path: string; readonly body?: object };
const requestOf = (method: "GET" | "POST", make: (context: { id?: string }) => Made) => ({
  ...{ method, headers },
  setupRequest: (request: object, context: { id?: string }) => {
    const { path, body } = make(context);
    return { ...request, path, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  },
});

interface LoadOperation {
  readonly name: string;
  /** The share of the bare Worker's throughput that Purser must reach. */
  readonly target: number;
  readonly requests: readonly object[];
}

const OPERATIONS: readonly LoadOperation[] = [
  {
    ...{ name: "list", target: 0.9 },
    requests: [requestOf("GET", () => ({ path: `/api/v1/credits?userId=${anyUser()}` }))],
  },
  {
    ...{ name: "history", target: 0.9 },
    requests: [requestOf("GET", () => ({ path: `/api/v1/credits/history?userId=${anyUser()}&limit=50` }))],
  },
  {
    ...{ name: "grant", target: 0.9 },
    requests: [
      requestOf("POST", () => ({
        path: "/api/v1/credits/grant",
        // To other users, so that the accounts of the other operations do not change.
        body: { userId: newName("g"), packId: "cpk_bench", externalRef: newName("order") },
      })),
    ],
  },
  {
    ...{ name: "usage event", target: 1 },
    requests: [
      requestOf("POST", () => ({
        path: "/api/v1/usage/events",
        body: { eventId: newName("e"), userId: anyUser(), ...usage(0.001) },
      })),
    ],
  },
  {
    ...{ name: "reserve + commit", target: 1 },
    requests: [
      requestOf("POST", (context) => {
        context.id = newName("res");
        const body = { reservationId: context.id, userId: anyUser(), ...usage(0.002) };
        return { path: "/api/v1/usage/reservations", body };
      }),
      requestOf("POST", ({ id }) => ({
        path: `/api/v1/usage/reservations/${id}/commit`,
        body: { eventId: newName("e"), quantities: usage(0.001).quantities },
      })),
    ],
  },
];

interface Slice {
  readonly requestsPerSecond: number;
  readonly averageMs: number;
  readonly cpuSeconds: number;
}

/** A short time of load on one Worker. Any status but 200 fails the run, because a refusal is faster than a success. */
async function slice(served: Served, { name, requests }: LoadOperation, connections: number, amount: number) {
  const cpuBefore = served.cpuSeconds();
  const run = autocannon({ url: served.urls[0] ?? "", connections, amount, sampleInt: 50, requests });
  // autocannon's histogram has whole milliseconds, and most responses take one or two.
  let [totalMs, answers] = [0, 0];
  run.on("response", (_client, _status, _bytes, responseMs) => {
    totalMs += responseMs;
    answers++;
  });
  const result = await run;
  const failed = result.non2xx + result.errors + result.timeouts;
  if (failed > 0) throw new Error(`${name}: ${failed} of ${amount} requests failed`);
  const averageMs = totalMs / answers;
  // Each of N connections waits for its response before the next request, so the throughput is N / latency.
  const requestsPerSecond = (connections * 1_000) / averageMs;
  return { requestsPerSecond, averageMs, cpuSeconds: served.cpuSeconds() - cpuBefore } satisfies Slice;
}

/** The value below which `share` of the values are, interpolated. */
function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const [below = Number.NaN, above = Number.NaN] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
  return below + (above - below) * (place - Math.floor(place));
}

/** Ten live balances and 60 ledger rows for each user under load. */
export async function fillAccounts(db: D1Database): Promise<void> {
  for (let index = 0; index < USERS; index++) {
    const account = { environmentId: 1, userId: `u${index}` };
    await runAll(db, [...liveBalancesSql(account, 10), ...entriesSql(account, 10, 5)]);
  }
}

/** Measures both Workers in turn, a slice each, `rounds` times. Returns a table. The order changes with every round. */
export async function compare(bare: Served, purser: Served, rounds: number): Promise<string> {
  const rows: string[][] = [];
  for (const operation of OPERATIONS) {
    for (const [connections, amount] of LOADS) {
      const slices = { bare: [] as Slice[], purser: [] as Slice[] };
      // The first round warms up both and is not counted.
      for (let round = 0; round <= rounds; round++) {
        const inTurn = round % 2 === 0 ? (["bare", "purser"] as const) : (["purser", "bare"] as const);
        for (const side of inTurn) {
          const measured = await slice(side === "bare" ? bare : purser, operation, connections, amount);
          if (round > 0) slices[side].push(measured);
        }
      }
      const ratios = slices.purser.map(
        (own, index) => own.requestsPerSecond / (slices.bare[index]?.requestsPerSecond ?? Number.NaN),
      );
      const cpuOf = (side: readonly Slice[]) => side.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0);
      const msOf = (side: readonly Slice[]) =>
        quantile(
          side.map(({ averageMs }) => averageMs),
          0.5,
        );
      const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2));
      const cells = [operation.name, `${connections}`, `${middle}`, `${low} to ${high}`];
      cells.push((cpuOf(slices.bare) / cpuOf(slices.purser)).toFixed(2), operation.target.toFixed(2));
      cells.push(msOf(slices.purser).toFixed(1), msOf(slices.bare).toFixed(1));
      rows.push(cells);
      console.log(cells.join(", "));
    }
  }
  const head = [
    "Operation",
    "Connections",
    "Throughput",
    "Quartiles",
    "CPU",
    "Target",
    "Purser, ms",
    "Bare Worker, ms",
  ];
  return table(head, rows);
}
