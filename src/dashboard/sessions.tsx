import { endSession, listSessions } from "../auth/admin-session.ts";
import { iso } from "../lib/time.ts";
import { fieldColumn, timeColumn } from "./columns.tsx";
import { SubmitButton, Tag } from "./components.tsx";
import { useRequest } from "./form.ts";
import { AppForm } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { listRoutes, wholeList } from "./resource.tsx";

const SHOWN_SESSIONS_MAX = 200;

interface ListedSession {
  readonly sessionId: string;
  readonly by: string;
  readonly beganAt: string;
  readonly endsAt: string;
}

/** The sessions of the dashboard. With Cloudflare Access there are none, because Access manages the sign-ins. */
export const sessionsRoutes = listRoutes<ListedSession, unknown>({
  path: "/admin/apps/sessions",
  title: "Sessions",
  about: "Who is signed in to this dashboard. A session ends by itself eight hours after its sign-in.",
  columns: [
    fieldColumn("by", "Name", ({ by, sessionId }) => (
      <>
        {by} {sessionId === useRequest().var.session.sessionId && <Tag kind="active">this one</Tag>}
      </>
    )),
    timeColumn("beganAt", "Signed in"),
    timeColumn("endsAt", "Ends"),
    {
      name: "end",
      head: "",
      cell: ({ by, sessionId, beganAt }) => (
        <AppForm action="/admin/apps/sessions/end" fields={{ sessionId }}>
          <SubmitButton text="End" kind="quiet" label={`End the session of ${by}, ${timeText(beganAt)}`} />
        </AppForm>
      ),
    },
  ],
  read: wholeList(async (c) => {
    const sessions = await listSessions(c.var.root, SHOWN_SESSIONS_MAX);
    return sessions.map((each) => ({ ...each, beganAt: iso(each.beganAtMs), endsAt: iso(each.endsAtMs) }));
  }),
  empty: "No sessions.",
  notices: { ended: "Session ended. Its cookie no longer works." },
  foot: (_, { list }) =>
    list.rows.length === SHOWN_SESSIONS_MAX && <p class="soft">Only the newest {SHOWN_SESSIONS_MAX} are shown.</p>,
}).post("/apps/sessions/end", async (c) => {
  await endSession(c.var.root, c.var.form.sessionId ?? "");
  return c.redirect("/admin/apps/sessions?notice=ended", 303);
});
