import type { Context } from "hono";
import { findPeople, recentPeople } from "../people/list-people.ts";
import { numberHead, Pager, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv, textField } from "./form.ts";
import { queryString, Time } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { PersonLink } from "./links.tsx";
import { FindPerson, personPage } from "./person.tsx";

const PEOPLE_ROWS = 50;

/**
 * Returns people: by default those with the latest events first, where that is known; otherwise those that match the search or
 * the list's cursor.
 */
async function readPeople(c: Context<DashboardEnv>, q: string | undefined, cursor: string | undefined) {
  const { ctx } = c.var;
  if (q === undefined && c.req.query("by") !== "id") {
    const recent = await recentPeople(ctx, { limit: PEOPLE_ROWS, cursor });
    if (recent.people.length > 0 || cursor !== undefined) return { ...recent, isRecent: true };
  }
  return { ...(await findPeople(ctx, { beginning: q ?? "", limit: PEOPLE_ROWS, cursor })), isRecent: false };
}

/** Shows people whose ids begin with a text. Opens the person if only one matches. */
async function peoplePage(c: Context<DashboardEnv>) {
  const form = c.req.query();
  const [q, cursor] = [textField(form, "q")?.trim() || undefined, textField(form, "cursor")];
  const { people, nextCursor, isRecent } = await readPeople(c, q, cursor);
  const isAlone = people.length === 0 || (people.length === 1 && people[0]?.distinctId === q);
  const open = `${pathIn(c, "people")}${queryString({ distinctId: q })}`;
  if (q !== undefined && isAlone && cursor === undefined) return c.redirect(open, 303);
  const by = isRecent || q !== undefined ? undefined : "id";
  const link = (more: { cursor?: string }) => `${pathIn(c, "people")}${queryString({ q, by, ...more })}`;
  return page(
    c,
    { title: "People", section: "people" },
    <>
      <FindPerson c={c} distinctId={q} />
      <p>
        <a href={pathIn(c, "people/erasures")}>Erasures</a> ·{" "}
        <a href={pathIn(c, "figures?figure=minted")}>Export links created</a> ·{" "}
        <a href={pathIn(c, "figures?figure=opened")}>Export links opened</a>
      </p>
      {q !== undefined && (
        <p class="card">
          <a href={open}>Open the id “{q}”</a>, even if nothing is stored under it.
        </p>
      )}
      <section class="card">
        {isRecent && (
          <p class="soft">
            The latest activity first, by the day. Approximate. Devices without an identified person are not listed.{" "}
            <a href={`${pathIn(c, "people")}${queryString({ by: "id" })}`}>All ids, by id</a>
          </p>
        )}
        <Table
          label="People"
          csv="people"
          head={["Distinct id", "Last seen", "First seen", numberHead("Events"), "Linked to"]}
          empty="No people yet. Ids appear with analytics events."
          rows={people.map((each) => [
            <>
              <PersonLink c={c} id={each.distinctId} /> {each.isIdentified ? <Tag kind="active">identified</Tag> : null}
            </>,
            <Time at={each.lastSeenAt} />,
            <Time at={each.firstSeenAt} />,
            <span class="num">{each.eventCount}</span>,
            each.claimedBy === null ? "" : <PersonLink c={c} id={each.claimedBy} />,
          ])}
        />
        <Pager
          first={cursor === undefined ? null : link({})}
          next={nextCursor && link({ cursor: nextCursor })}
          words={["First ids", "More ids"]}
        />
      </section>
    </>,
  );
}

export const peopleRoutes = createDashboardRoutes().get("/people", (c) => {
  const distinctId = textField(c.req.query(), "distinctId");
  return distinctId === undefined ? peoplePage(c) : personPage(c, distinctId);
});
