import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import page from "../../docs/costs.md?raw";
import { DOLLARS } from "../support/cloudflare-prices.ts";
import { END_USER_SETTING } from "../support/end-user-setting.ts";
import { userToken } from "../support/keyed-routes.ts";
import { CREDITS, USAGE } from "../support/paths.ts";
import { Clock, makeApp, makeClient, makePack } from "../support/world.ts";
import { wrappedD1 } from "../support/wrapped-d1.ts";

/** D1's limit of queries for one invocation on the free plan. */
const FREE_QUERIES_MAX = 50;

interface Cost {
  /** Each statement of a batch counts, as in the strictest reading of D1's limit. */
  queries: number;
  rowsRead: number;
  rowsWritten: number;
}

function countQueries(d1: D1Database) {
  const nothing = (): Cost => ({ queries: 0, rowsRead: 0, rowsWritten: 0 });
  let cost = nothing();
  const counted = wrappedD1(
    d1,
    async (send, statements) => {
      cost.queries += statements.length;
      const results = await send(statements);
      for (const { meta } of results) {
        cost.rowsRead += meta.rows_read;
        cost.rowsWritten += meta.rows_written;
      }
      return results;
    },
    { isMeasured: true },
  );
  const spent = () => {
    const before = cost;
    cost = nothing();
    return before;
  };
  return { d1: counted, spent };
}

type Run = (method: string, path: string, body?: object) => Promise<Cost & { readonly body: Record<string, string> }>;

/** A user with credits in one balance, whom the isolate remembers. */
async function makeWorld() {
  const { appId, keys } = await makeApp(END_USER_SETTING);
  await makePack(appId, "Pack", [{ amountMinor: 10_000_000, unit: "tokens" }]);
  const clock = new Clock();
  const token = await userToken("u", clock);
  const { d1, spent } = countQueries(env.DB);
  const call = makeClient(clock, { DB: d1 });
  const run: Run = async (method, path, body) => {
    spent();
    const answer = await call(method, path, { key: keys.sk_live, ...(body === undefined ? {} : { body }) });
    expect([path, answer.status]).toEqual([path, 200]);
    return { ...spent(), body: answer.body };
  };
  const asUser = async (path: string): Promise<Cost> => {
    spent();
    const answer = await call("GET", path, { key: keys.pk_live, headers: { "x-user-token": token } });
    expect(answer.status).toBe(200);
    return spent();
  };
  await run("POST", "/api/v1/credits/grant", { userId: "u", packId: "Pack" });
  // A user's first event after the cron summed usage costs one row more.
  await run("POST", "/api/v1/usage/events", use());
  return { run, asUser, keys };
}

let events = 0;
const use = (userId = "u") => ({ eventId: `e${++events}`, userId, event: "chat", quantities: { tokens: 1 } });
const useMany = (count: number, userOf: (index: number) => string = () => "u") =>
  Array.from({ length: count }, (_, index) => use(userOf(index)));

/** The call that measures each line of the table in docs/costs.md. */
async function measure({ run, asUser, keys }: Awaited<ReturnType<typeof makeWorld>>): Promise<Record<string, Cost>> {
  const hold = (id: string) => ({ ...use(), eventId: undefined, reservationId: `res_${id}` });
  const reserve = (id: string) => run("POST", `${USAGE}/reservations`, hold(id));
  const commit = { eventId: "committed", quantities: { tokens: 1 } };
  const seen = (count: number) => Array.from({ length: count }, () => ({ event: "seen", distinct_id: "d" }));
  await run("POST", "/batch/", { api_key: keys.pk_live, batch: seen(1) });
  const settled = async (id: string, verb: string, body: object) => {
    await reserve(id);
    return run("POST", `${USAGE}/reservations/res_${id}/${verb}`, body);
  };
  const link = await run("POST", "/api/v1/export-person", { distinctId: "u" });
  const { pathname, search } = new URL(link.body.downloadUrl ?? "");
  return {
    Grants: await run("POST", `${CREDITS}/grant`, { userId: "u", packId: "Pack", externalRef: "order" }),
    "Usage events": await run("POST", `${USAGE}/events`, use()),
    "Lists of 20 usage events of a user": await run("POST", `${USAGE}/events/batch`, useMany(20)),
    Holds: await reserve("a"),
    Commits: await settled("b", "commit", commit),
    Releases: await settled("c", "release", {}),
    Extensions: await settled("d", "extend", { expiresInSeconds: 600 }),
    Refunds: await run("POST", `${CREDITS}/refund`, { userId: "u", externalRef: "order", refundRef: "r" }),
    "Balances listed, by a page or a backend": await asUser(`${CREDITS}?userId=u`),
    Previews: await run("POST", `${CREDITS}/plan`, { ...use(), eventId: undefined }),
    "Pages of 50 ledger entries": await run("GET", `${CREDITS}/history?userId=u`),
    "Requests with 20 analytics events": await run("POST", "/batch/", { api_key: keys.pk_live, batch: seen(20) }),
    "Consent decisions": await run("POST", "/api/v1/consent", { distinctId: "u", purpose: "p", decision: "granted" }),
    "Export links": link,
    "Downloads of a small person": await run("GET", pathname + search),
  };
}

/** The lines of the table: name, queries, rows written, dollars. */
const published = [...page.matchAll(/^\| (\w[^|]*?) +\| +([\d,]+) +\| +(\d+) +\| +([\d.]+) +\|$/gm)].map(
  ([, name = "", queries, rows, dollars]) => ({
    name,
    queries: Number(queries),
    rowsWritten: Number(rows),
    dollars: Number(dollars),
  }),
);

it("docs/costs.md publishes the cost of each call and the number of its queries, as D1 counts them", async () => {
  const measured = await measure(await makeWorld());
  const lines = Object.entries(measured).map(([name, { queries, rowsRead, rowsWritten }]) => ({
    name,
    queries,
    rowsWritten,
    dollars: DOLLARS.requests + DOLLARS.rowsWritten * rowsWritten + DOLLARS.rowsRead * rowsRead,
  }));
  console.info(lines.map((line) => `| ${Object.values(line).join(" | ")} |`).join("\n"));
  expect(published.map(({ name, rowsWritten }) => [name, rowsWritten])).toEqual(
    lines.map(({ name, rowsWritten }) => [name, rowsWritten]),
  );
  for (const [index, { name, queries, dollars }] of lines.entries()) {
    expect(queries, name).toBeLessThanOrEqual(published[index]?.queries ?? 0);
    expect(Math.abs((published[index]?.dollars ?? 0) - dollars), name).toBeLessThan(0.02);
  }
  expect(lines.filter(({ queries }) => queries > FREE_QUERIES_MAX)).toEqual([]);
});

it("docs/costs.md is right that only lists of many events and erasures exceed the free plan's queries", async () => {
  const { run } = await makeWorld();
  const many = async (count: number) => (await run("POST", `${USAGE}/events/batch`, useMany(count))).queries;
  expect([await many(20), await many(100)].map((queries) => queries <= FREE_QUERIES_MAX)).toEqual([true, false]);
  const users = (count: number) => useMany(count, (index) => `v${index}`);
  for (let n = 0; n < 30; n++) await run("POST", `${CREDITS}/grant`, { userId: `v${n}`, packId: "Pack" });
  const few = await run("POST", `${USAGE}/events/batch`, users(12));
  const more = await run("POST", `${USAGE}/events/batch`, users(30));
  expect([few.queries <= FREE_QUERIES_MAX, more.queries <= FREE_QUERIES_MAX]).toEqual([true, false]);
  const erasure = await run("POST", "/api/v1/erase-person", { distinctId: "u" });
  expect(erasure.queries).toBeGreaterThan(FREE_QUERIES_MAX);
});
