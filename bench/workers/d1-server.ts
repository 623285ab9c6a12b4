import { bound, type SentStatement } from "../../test/support/wrapped-d1.ts";

/** D1 for a Worker in another process, so that what that process spends is the Worker's alone. */
export default {
  async fetch(request, env) {
    const { start, statements } = await request.json<{ start: string; statements: SentStatement[] }>();
    const session = env.DB.withSession(start);
    try {
      const results = await session.batch(bound(session, statements));
      return Response.json({ results, bookmark: session.getBookmark() });
    } catch (error) {
      return Response.json({ error: error instanceof Error ? error.message : String(error) });
    }
  },
} satisfies ExportedHandler<Env>;
