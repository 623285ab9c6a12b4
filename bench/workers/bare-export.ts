/**
 * What an export can cost at the least: a Worker that streams the same SQL text in the same pages, with no Purser in it.
 * No token, no audit, no snapshot, no person, no other list.
 */
import { lists } from "../../src/exports/lists.ts";

const { head, body } = lists.analytics;
const PAGE = `SELECT t.seq, ${head} || ${body} || '}' FROM analytics_events AS t
  WHERE t.environment_id = ? AND t.distinct_id = ? AND t.seq > ? ORDER BY t.seq LIMIT 2000`;

export default {
  fetch(request, env) {
    const { searchParams } = new URL(request.url);
    const session = env.DB.withSession("first-primary");
    const statement = session.prepare(PAGE);
    const read = (after: number) =>
      statement
        .bind(Number(searchParams.get("environment")), searchParams.get("distinctId"), after)
        .raw<[seq: number, text: string]>();
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
