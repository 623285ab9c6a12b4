import type { Context } from "hono";
import { endSession, listSessions } from "../auth/admin-session.ts";
import { iso } from "../lib/time.ts";
import { Hidden, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./form.ts";
import { time } from "./format.ts";
import { FormToken, page } from "./layout.tsx";
import { Time } from "./time.tsx";

const SHOWN_MAX = 200;

async function sessionsPage(c: Context<DashboardEnv>) {
  const sessions = await listSessions(c.var.root, SHOWN_MAX);
  const notice = c.req.query("notice") === "ended" ? "Session ended. Its cookie opens nothing now." : undefined;
  return page(
    c,
    { title: "Sessions", notice },
    <section class="card">
      <p class="soft">Who is signed in to this dashboard. A session ends by itself eight hours after its sign-in.</p>
      <Table
        label="Sessions"
        head={["Name", "Signed in", "Ends", ""]}
        empty="No sessions."
        rows={sessions.map(({ sessionId, by, beganAtMs, endsAtMs }) => [
          <>
            {by} {sessionId === c.var.session.sessionId ? <Tag kind="active">this one</Tag> : null}
          </>,
          <Time at={iso(beganAtMs)} />,
          <Time at={iso(endsAtMs)} />,
          <form method="post" action="/admin/apps/sessions/end">
            <FormToken c={c} />
            <Hidden fields={{ sessionId }} />
            <button type="submit" class="quiet" aria-label={`End the session of ${by}, ${time(iso(beganAtMs))}`}>
              End
            </button>
          </form>,
        ])}
      />
      {sessions.length === SHOWN_MAX && <p class="soft">Only the newest {SHOWN_MAX} are shown.</p>}
    </section>,
  );
}

/** Returns the pages of sign-ins with the admin token. With Cloudflare Access there are none, because Access manages them. */
export const sessionsRoutes = createDashboardRoutes()
  .get("/apps/sessions", sessionsPage)
  .post("/apps/sessions/end", async (c) => {
    await endSession(c.var.root, c.var.form.sessionId ?? "");
    return c.redirect("/admin/apps/sessions?notice=ended", 303);
  });
