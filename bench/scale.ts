/**
 * `npm run bench:scale`: the bytes and rows that each kind of write adds to a database, and how many of each it takes a second. Prints
 * the table of docs/scale.md. `BENCH_SIZE=0.1` makes a tenth of the writes.
 */
import { table } from "./figures.ts";
import { bundle, call, PUBLISHABLE_KEY, prepare, serve, spentOf } from "./serve.ts";

const SIZE = Number(process.env.BENCH_SIZE ?? "1");
const USERS = 500;
const CONNECTIONS = 20;
const EVENTS_A_REQUEST = 20;

const userOf = (index: number): string => `user_${String(index % USERS).padStart(6, "0")}`;
const uuid = (index: number): string => `00000000-0000-4000-8000-${String(index).padStart(12, "0")}`;
const usage = { event: "chat.completed", model: "small-2", quantities: { tokens: 120, cents: 0.036 } };

const served = await serve([await bundle("bench/workers/measured.ts")]);
const url = served.urls[0] ?? "";

const post = (path: string, body: object) => call(url, { path, body });

type Work = (index: number) => Promise<unknown>;

/** Makes `calls` calls, 20 at a time, and returns the seconds that they took. */
async function run(calls: number, work: Work): Promise<number> {
  let next = 0;
  const startMs = performance.now();
  const connection = async () => {
    while (next < calls) await work(next++);
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  return (performance.now() - startMs) / 1_000;
}

try {
  await prepare(served.db);
  const grant = (userId: string, externalRef: string) =>
    post("/api/v1/credits/grant", { userId, packId: "cents", externalRef });

  const bytes = async () => (await served.db.prepare("SELECT count(*) FROM apps").run()).meta.size_after;
  const rows: string[][] = [];
  const measure = async (name: string, writes: number, ofCall: number, work: Work) => {
    const bytesBefore = await bytes();
    await spentOf(url);
    const seconds = await run(writes / ofCall, work);
    const bytesOfOne = ((await bytes()) - bytesBefore) / writes;
    const rowsOfOne = (await spentOf(url)).rowsWritten / writes;
    rows.push([name, bytesOfOne.toFixed(0), rowsOfOne.toFixed(1), (writes / seconds).toFixed(0)]);
  };

  // Every user has an account and a balance before anything is measured.
  await run(USERS, (index) => grant(userOf(index), `first_${index}`));
  await measure("Grant of one item", 1_000 * SIZE, 1, (index) => grant(userOf(index), `order_${index}`));
  await measure("Usage event that one balance pays", 5_000 * SIZE, 1, (index) =>
    post("/api/v1/usage/events", { ...usage, userId: userOf(index), eventId: `event_${uuid(index)}` }),
  );
  await measure("Hold and commit, one balance", 1_500 * SIZE, 1, async (index) => {
    const reservationId = `res_${uuid(index)}`;
    await post("/api/v1/usage/reservations", { ...usage, userId: userOf(index), reservationId });
    const body = { eventId: `commit_${uuid(index)}`, quantities: usage.quantities };
    await post(`/api/v1/usage/reservations/${reservationId}/commit`, body);
  });
  await measure("Analytics event of 110 bytes, 20 in a request", 10_000 * SIZE, EVENTS_A_REQUEST, (index) => {
    const properties = { $current_url: "https://example.com/pricing", $browser: "Firefox", $lib: "web", plan: "team" };
    const batch = Array.from({ length: EVENTS_A_REQUEST }, (_, at) => ({
      ...{ uuid: uuid(index * EVENTS_A_REQUEST + at), event: "page viewed", distinct_id: userOf(index), properties },
    }));
    return post("/batch/", { api_key: PUBLISHABLE_KEY, batch });
  });
  console.log(table(["Write", "Bytes", "Rows written", "A second"], rows));
} finally {
  await served.close();
}
