import autocannon from "autocannon";
import { entriesSql, liveBalancesSql } from "../test/support/seed.ts";
import { measureInTurn, median, quantile, table } from "./figures.ts";
import { PACK_ID, runAll, SECRET_KEY, type Served } from "./serve.ts";

/** The users under load are `u0` to `u49`. */
const USERS = 50;
/** The connections, and the requests of one slice. A slice is short, so that other work of the machine affects both sides equally. */
const LOADS = [
  [1, 300],
  [50, 600],
] as const;

let unique = 0;
const newName = (prefix: string) => `${prefix}_${process.pid}_${unique++}`;
const anyUser = () => `u${Math.floor(Math.random() * USERS)}`;
const usage = (tokens: number) => ({ event: "chat.done", quantities: { count: 0, tokens } });

/** A request, made when it is sent. `context` is shared by the requests of one round of a connection. */
const requestOf = (make: (context: { id?: string }) => readonly [path: string, body?: object]) => ({
  headers: { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" },
  setupRequest: (request: object, context: { id?: string }) => {
    const [path, body] = make(context);
    return { ...request, path, ...(body && { method: "POST", body: JSON.stringify(body) }) };
  },
});

/** Each with the share of the bare Worker's throughput that Purser must reach, and its requests. */
const OPERATIONS: Readonly<Record<string, readonly [target: number, ...requests: object[]]>> = {
  list: [0.9, requestOf(() => [`/api/v1/credits?userId=${anyUser()}`])],
  history: [0.9, requestOf(() => [`/api/v1/credits/history?userId=${anyUser()}&limit=50`])],
  grant: [
    0.9,
    requestOf(() => {
      // To other users, so that the accounts of the other operations do not change.
      const body = { userId: newName("g"), packId: PACK_ID, externalRef: newName("order") };
      return ["/api/v1/credits/grant", body];
    }),
  ],
  "usage event": [
    1,
    requestOf(() => ["/api/v1/usage/events", { eventId: newName("e"), userId: anyUser(), ...usage(0.001) }]),
  ],
  "reserve + commit": [
    1,
    requestOf((context) => {
      context.id = newName("res");
      return ["/api/v1/usage/reservations", { reservationId: context.id, userId: anyUser(), ...usage(0.002) }];
    }),
    requestOf(({ id }) => {
      const body = { eventId: newName("e"), quantities: usage(0.001).quantities };
      return [`/api/v1/usage/reservations/${id}/commit`, body];
    }),
  ],
};

/** A short time of load on one Worker. Any status but 200 fails the run, because a rejection is faster than a success. */
async function slice(served: Served, requests: readonly object[], connections: number, amount: number) {
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
  if (failed > 0) throw new Error(`${failed} of ${amount} requests failed`);
  return { averageMs: totalMs / answers, cpuSeconds: served.cpuSeconds() - cpuBefore };
}

/** Ten live balances and 60 ledger rows for each user under load. */
export async function fillAccounts(db: D1Database): Promise<void> {
  for (let index = 0; index < USERS; index++) {
    const account = { environmentId: 1, userId: `u${index}` };
    await runAll(db, [...liveBalancesSql(account, 10), ...entriesSql(account, 10, 5)]);
  }
}

/** Measures both Workers in turn, a slice each, `rounds` times. Returns a table. */
export async function compare(bare: Served, purser: Served, rounds: number): Promise<string> {
  const rows: string[][] = [];
  for (const [name, [target, ...requests]] of Object.entries(OPERATIONS)) {
    for (const [connections, amount] of LOADS) {
      const slices = await measureInTurn(rounds, (side) =>
        slice(side === "bare" ? bare : purser, requests, connections, amount),
      );
      const [cpuOfBare = 0, cpu = 0] = [slices.bare, slices.Purser].map((side) =>
        side.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0),
      );
      const ms = [slices.Purser, slices.bare].map((side) => median(side.map(({ averageMs }) => averageMs)).toFixed(1));
      // Each of N connections waits for its response before the next request, so the throughput is N / latency.
      const ratios = slices.bare.map(
        ({ averageMs }, round) => averageMs / (slices.Purser[round]?.averageMs ?? Number.NaN),
      );
      const [low, middle = "", high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share).toFixed(2));
      const shares = [middle, `${low} to ${high}`, (cpuOfBare / cpu).toFixed(2), target.toFixed(2)];
      rows.push([name, `${connections}`, ...shares, ...ms]);
      console.log(rows.at(-1)?.join(", "));
    }
  }
  const figures = ["Throughput", "Quartiles", "CPU", "Target", "Purser, ms", "Bare Worker, ms"];
  return table(["Operation", "Connections", ...figures], rows);
}
