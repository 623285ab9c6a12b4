import type { Cost } from "../test/support/counting-d1.ts";
import { deadBalancesSql, entriesSql, liveBalancesSql, seededId } from "../test/support/seed.ts";
import { APP_ID } from "./app-id.ts";
import { ADMIN_TOKEN, runAll, SECRET_KEY, type Served } from "./serve.ts";

export interface CostRow {
  readonly operation: string;
  /** Balances that can pay, and balances that cannot. */
  readonly live: number;
  readonly dead: number;
  readonly cost: Cost;
  readonly allowed: Cost;
}

interface Call {
  readonly operation: string;
  readonly method?: string;
  readonly path: string;
  readonly body?: object;
  readonly allowed: (live: number) => Cost;
}

const costs = (roundTrips: number, rowsRead: number, rowsWritten: number): Cost => ({
  roundTrips,
  rowsRead,
  rowsWritten,
});
const CREDITS = "/api/v1/credits";
const USAGE = "/api/v1/usage";
/** The most rows read for one ledger entry: by its triggers, and by the first and last statements of its batch. */
const READS_AN_ENTRY = 24;
/** The most rows read besides: for the key's check, and for the account in each statement that names the user. */
const READS_A_WRITE = 8;

/** Every operation on one user, in an order in which each succeeds. */
function calls(userId: string, tag: string): Call[] {
  const balanceId = seededId({ environmentId: 1, userId }, "live", 0);
  const usage = { userId, event: "chat.done", quantities: { count: 0, tokens: 1 } };
  const reservation = (name: string) => `res_${tag}_${name}`;
  const grants = [1, 3, 10].flatMap((n): Call[] => {
    const body = { userId, packId: `cpk_${n}`, externalRef: `${tag} ${n}` };
    const path = `${CREDITS}/grant`;
    return [
      { operation: `grant, ${n} items`, path, body, allowed: () => costs(2, 13 * n + 16, 6 * n) },
      { operation: `grant, ${n} items, replayed`, path, body, allowed: () => costs(1, 6 * n + 14, 0) },
    ];
  });
  // A commit writes two entries and settles the hold. A release writes one entry and settles it.
  const write = (live: number, entries: number, written: number) =>
    costs(2, READS_A_WRITE + 2 * live + READS_AN_ENTRY * entries, written);
  return [
    { operation: "list", path: `${CREDITS}?userId=${userId}`, allowed: (live) => costs(1, live + 5, 0) },
    { operation: "history, 50", path: `${CREDITS}/history?userId=${userId}`, allowed: () => costs(1, 55, 0) },
    {
      operation: "history of a balance, 1",
      path: `${CREDITS}/history?userId=${userId}&balanceId=${balanceId}&limit=1`,
      allowed: () => costs(1, 7, 0),
    },
    {
      operation: "usage event",
      path: `${USAGE}/events`,
      body: { ...usage, eventId: `${tag} e1` },
      allowed: (live) => write(live, 1, 4),
    },
    {
      operation: "reserve",
      path: `${USAGE}/reservations`,
      body: { ...usage, reservationId: reservation("a") },
      allowed: (live) => write(live, 1, 4),
    },
    {
      operation: "commit",
      path: `${USAGE}/reservations/${reservation("a")}/commit`,
      body: { eventId: `${tag} e2`, quantities: usage.quantities },
      allowed: (live) => write(live, 3, 8),
    },
    {
      operation: "reserve",
      path: `${USAGE}/reservations`,
      body: { ...usage, reservationId: reservation("b") },
      allowed: (live) => write(live, 1, 4),
    },
    {
      operation: "release",
      path: `${USAGE}/reservations/${reservation("b")}/release`,
      body: {},
      allowed: (live) => write(live, 2, 4),
    },
    { operation: "plan", path: `${CREDITS}/plan`, body: usage, allowed: (live) => costs(1, 2 * live + 107, 0) },
    {
      operation: "revoke",
      path: `${CREDITS}/revoke`,
      body: { balanceId: seededId({ environmentId: 1, userId }, "live", 0), reason: "bench" },
      // What the test allows, and the key: two rows with the read, one with the write.
      allowed: () => costs(2, 26 + 3, 4),
    },
    ...grants,
  ];
}

async function call(served: Served, { method, path, body }: Pick<Call, "method" | "path" | "body">): Promise<Response> {
  const authorization = `Bearer ${path.startsWith("/api/v1/admin") ? ADMIN_TOKEN : SECRET_KEY}`;
  const response = await fetch(served.url + path, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: { authorization, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

/** The rows that every export reads besides: the person, its ids, the first row of empty lists. */
const EXPORT_READS = 60;

/** Opens a download link for a user's data. */
async function measureExport(served: Served, userId: string): Promise<Pick<CostRow, "operation" | "cost" | "allowed">> {
  const minted = await call(served, { path: "/api/v1/export-person", body: { distinctId: userId } });
  const { downloadUrl } = (await minted.json()) as { downloadUrl: string };
  await spent(served);
  const { person, events } = (await (await fetch(downloadUrl)).json()) as {
    person: { credits: { balances: unknown[]; ledger: unknown[] }; exports: unknown[] };
    events: { metering: unknown[] };
  };
  const { balances, ledger } = person.credits;
  const lists = [balances, ledger, person.exports, events.metering];
  const rows = lists.reduce((sum, list) => sum + list.length, 0);
  // A page has 500 balances, or 2,000 rows of other lists. Two more trips write the audit rows.
  const pages = Math.ceil(balances.length / 500) + Math.ceil((rows - balances.length) / 2_000);
  const allowed = costs(2 + pages, Math.floor(1.05 * rows) + EXPORT_READS, 2);
  return { operation: "export", cost: await spent(served), allowed };
}

const spent = async (served: Served): Promise<Cost> =>
  (await fetch(`${served.url}/bench/cost`)).json() as Promise<Cost>;

/** Packs of 1, 3 and 10 items. */
export async function fillPacks(db: D1Database): Promise<void> {
  for (const n of [1, 3, 10]) {
    await runAll(db, [
      `INSERT INTO credit_packs (app_id, id, name, name_key, created_at_ms) VALUES ('${APP_ID}', 'cpk_${n}', 'Pack ${n}', 'pack ${n}', 0)`,
      ...Array.from(
        { length: n },
        (_, i) =>
          `INSERT INTO credit_pack_items (app_id, pack_id, position, id, amount_steps, unit) VALUES ('${APP_ID}', 'cpk_${n}', ${i}, 'cpi_${n}_${i}', 1000, 'tokens')`,
      ),
    ]);
  }
}

/** D1's own counters for every operation, on users with different accounts. `tag` distinguishes runs. */
export async function measureCosts(served: Served, tag: string): Promise<CostRow[]> {
  const rows: CostRow[] = [];
  await call(served, { path: `${CREDITS}?userId=warm` });
  for (const live of [1, 10, 100]) {
    for (const dead of [0, 10_000]) {
      const userId = `${tag}-live${live}-dead${dead}`;
      const account = { environmentId: 1, userId };
      await runAll(served.db, [
        ...deadBalancesSql(account, dead),
        ...liveBalancesSql(account, live),
        ...entriesSql(account, live, Math.ceil(60 / live)),
      ]);
      for (const one of calls(userId, `${tag}${live}x${dead}`)) {
        // An isolate keeps a key for 30 seconds. The table is about requests within this time.
        await call(served, { path: `${CREDITS}?userId=warm` });
        await spent(served);
        await (await call(served, one)).arrayBuffer();
        rows.push({ operation: one.operation, live, dead, cost: await spent(served), allowed: one.allowed(live) });
      }
      rows.push({ live, dead, ...(await measureExport(served, userId)) });
    }
  }
  return rows;
}

export const isWithin = ({ cost, allowed }: CostRow): boolean =>
  cost.roundTrips <= allowed.roundTrips && cost.rowsRead <= allowed.rowsRead && cost.rowsWritten <= allowed.rowsWritten;
