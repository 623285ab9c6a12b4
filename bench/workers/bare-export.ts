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

export default {
  fetch(request, env) {
    const { searchParams } = new URL(request.url);
    const session = env.DB.withSession("first-primary");
    const values = {
      environmentId: Number(searchParams.get("environment")),
      distinctId: searchParams.get("distinctId") ?? "",
    };
    const read = (after: number) => {
      const { text, params } = selectPage({ ...values, after });
      return session
        .prepare(text)
        .bind(...params)
        .raw<[seq: number, text: string]>();
    };
    const encoder = new TextEncoder();
    let next = read(0);
    let isFirst = true;
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const page = await next;
          const last = page.at(-1);
          if (last === undefined) {
            controller.enqueue(encoder.encode("]"));
            controller.close();
            return;
          }
          next = read(last[0]);
          const text = page.map(([, row]) => row).join(",");
          controller.enqueue(encoder.encode((isFirst ? "[" : ",") + text));
          isFirst = false;
        },
      },
      { highWaterMark: 0 },
    );
    return new Response(stream, { headers: { "content-type": "application/json" } });
  },
} satisfies ExportedHandler<Env>;
