import autocannon from "autocannon";
import { SECRET_KEY, type Served } from "./serve.ts";

const headers = { authorization: `Bearer ${SECRET_KEY}`, "content-type": "application/json" };
let unique = 0;
const newName = (prefix: string) => `${prefix}_${process.pid}_${unique++}`;
const anyUser = () => `u${Math.floor(Math.random() * USERS)}`;
const post = (path: string, body: () => object) => ({
  method: "POST",
  path,
  headers,
  setupRequest: (request: object) => ({ ...request, body: JSON.stringify(body()) }),
});

/** Users `u0` to `u<USERS - 1>` are the accounts under load. */
export const USERS = 50;

export interface Operation {
  readonly name: string;
  /** The share of the bare Worker's throughput that Purser must reach. */
  readonly target: number;
  readonly requests: () => object[];
}

const get = (path: () => string) => ({
  method: "GET",
  headers,
  setupRequest: (request: object) => ({ ...request, path: path() }),
});

export const operations: readonly Operation[] = [
  { name: "list", target: 0.9, requests: () => [get(() => `/api/v1/credits?userId=${anyUser()}`)] },
  {
    name: "history",
    target: 0.9,
    requests: () => [get(() => `/api/v1/credits/history?userId=${anyUser()}&limit=50`)],
  },
  {
    name: "grant",
    target: 0.9,
    requests: () => [
      // To other users, so that the accounts of the other operations do not change.
      post("/api/v1/credits/grant", () => ({
        userId: newName("g"),
        packId: "cpk_bench",
        externalRef: newName("order"),
      })),
    ],
  },
  {
    name: "usage event",
    target: 1,
    requests: () => [
      post("/api/v1/usage/events", () => ({
        eventId: newName("e"),
        userId: anyUser(),
        event: "chat.done",
        quantities: { count: 0, tokens: 0.001 },
      })),
    ],
  },
  {
    name: "reserve + commit",
    target: 1,
    requests: () => [
      {
        method: "POST",
        path: "/api/v1/usage/reservations",
        headers,
        setupRequest: (request: object, context: { id?: string }) => {
          context.id = newName("res").replaceAll(/[^A-Za-z0-9_-]/g, "");
          const body = {
            reservationId: context.id,
            userId: anyUser(),
            event: "chat.done",
            quantities: { count: 0, tokens: 0.002 },
          };
          return { ...request, body: JSON.stringify(body) };
        },
      },
      {
        method: "POST",
        headers,
        setupRequest: (request: object, context: { id?: string }) => ({
          ...request,
          path: `/api/v1/usage/reservations/${context.id}/commit`,
          body: JSON.stringify({ eventId: newName("e"), quantities: { count: 0, tokens: 0.001 } }),
        }),
      },
    ],
  },
];

export interface Slice {
  readonly requestsPerSecond: number;
  readonly averageMs: number;
  /** The CPU time of the Worker's process for the whole slice. Null if it is not known. */
  readonly cpuSeconds: number | null;
}

/** A short time of load on one Worker. Any status but 200 fails the run, because a refusal is faster than a success. */
export async function slice(served: Served, operation: Operation, connections: number, amount: number): Promise<Slice> {
  const cpuBefore = served.cpuSeconds();
  const run = autocannon({ url: served.url, connections, amount, sampleInt: 50, requests: operation.requests() });
  // autocannon's histogram has whole milliseconds, and most responses take one or two.
  let totalMs = 0;
  let answers = 0;
  run.on("response", (_client, _status, _bytes, responseMs) => {
    totalMs += responseMs;
    answers++;
  });
  const result = await run;
  const cpuAfter = served.cpuSeconds();
  const failed = result.non2xx + result.errors + result.timeouts;
  if (failed > 0) throw new Error(`${operation.name}: ${failed} of ${amount} requests failed`);
  const averageMs = totalMs / answers;
  return {
    // Each of N connections waits for its response before the next request, so the throughput is N / latency.
    requestsPerSecond: (connections * 1_000) / averageMs,
    averageMs,
    cpuSeconds: cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore,
  };
}

/** The median and the quartiles. */
export function spread(values: readonly number[]): { median: number; low: number; high: number } {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => {
    const place = share * (sorted.length - 1);
    const [below = Number.NaN, above = Number.NaN] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]];
    return below + (above - below) * (place - Math.floor(place));
  };
  return { median: at(0.5), low: at(0.25), high: at(0.75) };
}
