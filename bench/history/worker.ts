import { countingD1 } from "../../test/support/counting-d1.ts";
import {
  eraseObjects,
  findStub,
  type HomeRow,
  homeRows,
  moveOne,
  type Row,
  readObject,
  type Stores,
} from "./objects.ts";

/**
 * The experiment's reads and moves over HTTP, so that their CPU and memory are a Worker's. Each answers beside its result how many
 * subrequests went to R2, and the trips and rows of D1.
 */
interface HistoryEnv {
  readonly DB: D1Database;
  readonly BUCKET: R2Bucket;
}

interface Args {
  readonly accountId: number;
  readonly limit: number;
  readonly entriesOfEvent: number;
  readonly id: string;
  readonly seq: number;
  readonly statements: readonly (readonly [sql: string, ...values: (string | number)[]])[];
}

const GETS_AT_ONCE = 6;

/** Reads objects in order, some ahead of time, and gives each to `take`. */
async function each(
  stores: Stores,
  rows: readonly HomeRow[],
  take: (contents: Awaited<ReturnType<typeof readObject>>) => void,
) {
  for (let at = 0; at < rows.length; at += GETS_AT_ONCE) {
    for (const contents of await Promise.all(rows.slice(at, at + GETS_AT_ONCE).map((row) => readObject(stores, row))))
      take(contents);
  }
}

const all = async ({ db }: Stores, sql: string, ...values: (number | string)[]) =>
  (
    await db
      .prepare(sql)
      .bind(...values)
      .all<Row>()
  ).results;

function totals() {
  const sums = new Map<string, bigint>();
  return {
    add: (events: readonly Row[]) => {
      for (const { event, model, tokens_minor: tokens } of events) {
        const group = `${event}/${model}`;
        sums.set(group, (sums.get(group) ?? 0n) + BigInt(Number(tokens ?? 0)));
      }
    },
    result: () => Object.fromEntries([...sums].map(([group, sum]) => [group, String(sum)])),
  };
}

/** Each read twice: through the objects, and from rows at home. */
const operations: Record<string, (stores: Stores, args: Args) => Promise<unknown>> = {
  move: async (stores, { accountId, limit, entriesOfEvent }) => ({
    events: await moveOne(stores, accountId, limit, entriesOfEvent),
  }),

  "history/objects": async (stores, { accountId }) => {
    const rows = await homeRows(stores, accountId);
    let entries = 0;
    await each(stores, rows.slice(-1), ({ ledger }) => {
      entries += ledger.length;
    });
    return { entries };
  },
  "history/home": async (stores, { accountId, limit }) => ({
    entries: (
      await all(stores, "SELECT * FROM credit_ledger WHERE account_id = ? ORDER BY seq DESC LIMIT ?", accountId, limit)
    ).length,
  }),

  "page/objects": async (stores, { accountId, limit }) => {
    const rows = await homeRows(stores, accountId);
    let page: readonly Row[] = [];
    await each(stores, rows.slice(-1), ({ events }) => {
      page = events.slice(-limit);
    });
    return { events: page.length };
  },
  "page/home": async (stores, { accountId, limit }) => ({
    events: (
      await all(stores, "SELECT * FROM usage_events WHERE account_id = ? ORDER BY seq DESC LIMIT ?", accountId, limit)
    ).length,
  }),

  "totals/objects": async (stores, { accountId, seq }) => {
    const sums = totals();
    const rows = await homeRows(stores, accountId);
    const from = rows.findIndex((row) => row.last_seq >= seq);
    await each(stores, rows.slice(from), ({ events }) => sums.add(events));
    return sums.result();
  },
  "totals/home": async (stores, { accountId, seq }) => ({
    groups: (
      await all(
        stores,
        "SELECT event, model, sum(tokens_minor) AS tokens FROM usage_events WHERE account_id = ? AND seq >= ? GROUP BY event, model",
        accountId,
        seq,
      )
    ).length,
  }),

  "as-of/objects": async (stores, { accountId, seq }) => {
    const rows = await homeRows(stores, accountId);
    const at = rows.findIndex((row) => row.last_seq >= seq);
    const balances = new Map<string, unknown>();
    for (const { balances: ended } of rows.slice(0, at))
      for (const [grant, amount] of Object.entries(JSON.parse(ended))) balances.set(grant, amount);
    await each(stores, rows.slice(at, at + 1), ({ ledger }) => {
      for (const row of ledger)
        if (Number(row.seq) <= seq) balances.set(String(row.grant_seq), row.balance_after_minor);
    });
    return { balances: balances.size };
  },
  "as-of/home": async (stores, { accountId, seq }) => ({
    balances: (
      await all(
        stores,
        `SELECT grant_seq, balance_after_minor, max(seq) FROM credit_ledger WHERE account_id = ? AND seq <= ? GROUP BY grant_seq`,
        accountId,
        seq,
      )
    ).length,
  }),

  "verify/objects": async (stores, { accountId }) => {
    const after = new Map<unknown, number>();
    let isSound = true;
    let last = 0;
    await each(stores, await homeRows(stores, accountId), ({ ledger }) => {
      for (const row of ledger) {
        isSound &&= Number(row.seq) === ++last;
        const before = after.get(row.grant_seq) ?? 0;
        isSound &&= before + Number(row.delta_minor) === Number(row.balance_after_minor);
        after.set(row.grant_seq, Number(row.balance_after_minor));
      }
    });
    return { isSound, entries: last };
  },
  "verify/home": async (stores, { accountId }) => ({
    unsound: await all(
      stores,
      `SELECT count(*) AS n FROM credit_ledger AS e LEFT JOIN credit_ledger AS p
         ON p.account_id = e.account_id AND p.seq = e.previous_seq
       WHERE e.account_id = ? AND coalesce(p.balance_after_minor, 0) + e.delta_minor <> e.balance_after_minor`,
      accountId,
    ),
  }),

  erase: async (stores, { accountId }) => {
    await eraseObjects(stores, accountId, (row) => ({ ...row, properties: null, event_id: crypto.randomUUID() }));
    return {};
  },
  /** Fills tables for the experiment. */
  write: async ({ db }, { statements }) => {
    await db.batch(statements.map(([sql, ...values]) => db.prepare(sql).bind(...values)));
    return {};
  },
  find: async (stores, { id }) => ({ found: await findStub(stores, 1, id) }),
};

/** Streams the events of an account as a JSON list, as an export does. */
function exportOf(stores: Stores, accountId: number, from: "objects" | "home"): ReadableStream {
  const encoder = new TextEncoder();
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const write = async () => {
    const writer = writable.getWriter();
    const send = (events: readonly Row[]) => writer.write(encoder.encode(`${JSON.stringify(events).slice(1, -1)},`));
    await writer.write(encoder.encode("["));
    if (from === "objects") {
      for (const row of await homeRows(stores, accountId)) await send((await readObject(stores, row)).events);
    } else {
      for (let seq = 0; ; ) {
        const page = await all(
          stores,
          "SELECT * FROM usage_events WHERE account_id = ? AND seq > ? ORDER BY seq LIMIT 3000",
          accountId,
          seq,
        );
        if (page.length === 0) break;
        seq = Number(page.at(-1)?.seq);
        await send(page);
      }
    }
    await writer.write(encoder.encode("null]"));
    await writer.close();
  };
  write().catch((error) => writable.abort(error));
  return readable;
}

export default {
  async fetch(request, env) {
    const name = new URL(request.url).pathname.slice(1);
    const args = (await request.json()) as Args;
    let gets = 0;
    const bucket = new Proxy(env.BUCKET, {
      get: (target, property) => {
        const value = Reflect.get(target, property);
        if (typeof value !== "function") return value;
        return (...values: unknown[]) => {
          gets++;
          return Reflect.apply(value, target, values);
        };
      },
    });
    const counting = countingD1(env.DB);
    const stores = { db: counting.d1, bucket };
    if (name.startsWith("export/")) {
      return new Response(exportOf(stores, args.accountId, name === "export/objects" ? "objects" : "home"));
    }
    const result = await operations[name]?.(stores, args);
    return Response.json({ result, gets, ...counting.spent() });
  },
} satisfies ExportedHandler<HistoryEnv>;
