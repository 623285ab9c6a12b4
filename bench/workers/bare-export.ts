/**
 * The least that an export can cost: a Worker that streams the same SQL text in the same pages, without Purser.
 * No token, no audit, no snapshot, no person, no other list.
 */
import { sql } from "drizzle-orm";
import { query, readArrays, type ValueOf } from "../../src/db/query.ts";
import { analyticsEvents } from "../../src/db/schema.ts";
import { jsonOf, lists } from "../../src/exports/lists.ts";

const { environmentId, distinctId, seq } = analyticsEvents;
const { head, body } = jsonOf(lists.analytics);
const selectPage = query((value: ValueOf<{ environmentId: number; distinctId: string; after: number }>) =>
  readArrays(
    [sql<number>`${seq}`, sql<string>`${head} || ${body} || '}'`] as const,
    (list) => sql`SELECT ${list} FROM ${analyticsEvents} WHERE ${environmentId} = ${value("environmentId")}
      AND ${distinctId} = ${value("distinctId")} AND ${seq} > ${value("after")} ORDER BY ${seq} LIMIT 2000`,
  ),
);

/** The text of the document, a page at a time. Each page is requested before the one before it is sent. */
async function* documentOf(read: (after: number) => Promise<[seq: number, text: string][]>) {
  let next = read(0);
  for (let separator = "["; ; separator = ",") {
    const page = await next;
    const last = page.at(-1);
    if (last === undefined) break;
    next = read(last[0]);
    yield separator + page.map(([, row]) => row).join(",");
  }
  yield "]";
}

export default {
  fetch(request, env) {
    const { searchParams } = new URL(request.url);
    const session = env.DB.withSession("first-primary");
    const [environment, distinctId = ""] = ["environment", "distinctId"].map((name) => searchParams.get(name) ?? "");
    const parts = documentOf((after) => {
      const { text, params } = selectPage({ environmentId: Number(environment), distinctId, after });
      const page = session.prepare(text).bind(...params);
      return page.raw();
    });
    const encoder = new TextEncoder();
    const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
      const { value, done } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(encoder.encode(value));
    };
    const stream = new ReadableStream({ pull }, { highWaterMark: 0 });
    return new Response(stream, { headers: { "content-type": "application/json" } });
  },
} satisfies ExportedHandler<Env>;
