import { findPeople, recentPeople } from "../people/list-people.ts";
import { AppLink, LinkButton, pathIn } from "./app-link.tsx";
import { fieldColumn, numberColumn, timeColumn } from "./columns.tsx";
import { Tag } from "./components.tsx";
import { createDashboardRoutes, type Form, type PageContext, textField } from "./form.ts";
import { queryString } from "./format.tsx";
import { PersonLink } from "./links.tsx";
import { rare } from "./list.tsx";
import { personPage } from "./person.tsx";
import { listPage, listRoutes, type Resource } from "./resource.tsx";

type ListedPerson = Awaited<ReturnType<typeof findPeople>>["people"][number];

const personSearch = (form: Form): string | undefined => textField(form, "q")?.trim() || undefined;

/**
 * The list of people: by default those with the latest events first, where that is known; otherwise those that match the search
 * or the list's cursor, by id.
 */
const peopleList: Resource<ListedPerson, { readonly isRecent?: boolean }> = {
  path: "people",
  title: "People",
  section: "people",
  columns: [
    fieldColumn("distinctId", "Distinct id", ({ distinctId, isIdentified }) => (
      <>
        <PersonLink id={distinctId} /> {isIdentified ? <Tag kind="active">identified</Tag> : null}
      </>
    )),
    timeColumn("lastSeenAt", "Last seen"),
    timeColumn("firstSeenAt", "First seen"),
    numberColumn("eventCount", "Events"),
    rare(
      fieldColumn("claimedBy", "Linked to", ({ claimedBy }) =>
        claimedBy === null ? "" : <PersonLink id={claimedBy} />,
      ),
    ),
  ],
  filters: [{ name: "q", label: "Distinct id", placeholder: "Or its beginning" }, { name: "by" }],
  read: (c, form) => {
    const q = personSearch(form);
    let isRecent = q === undefined && form.by !== "id";
    return async (page) => {
      if (isRecent) {
        const { people, nextCursor } = await recentPeople(c.var.ctx, page);
        if (people.length > 0 || page.cursor !== undefined) return { rows: people, nextCursor, isRecent };
        isRecent = false;
      }
      const { people, nextCursor } = await findPeople(c.var.ctx, { beginning: q ?? "", ...page });
      return { rows: people, nextCursor };
    };
  },
  kept: (form, first) =>
    personSearch(form) !== undefined || first === null || first.isRecent === true ? {} : { by: "id" },
  empty: "No people yet. Ids appear with analytics events.",
  words: ["First ids", "More ids"],
  foot: (_, { first, list }) =>
    first?.isRecent === true && list.sorted === null ? (
      <p class="soft">
        The latest activity first, by the day. Approximate. Devices without an identified person are not listed.{" "}
        <AppLink to="people?by=id">All ids, by id</AppLink>
      </p>
    ) : null,
  actions: () => (
    <>
      <LinkButton to="people/erasures" text="Erasures" />
      <LinkButton to="figures?figure=minted" text="Export links created" />
      <LinkButton to="figures?figure=opened" text="Export links opened" />
    </>
  ),
};

/** Shows people whose ids begin with a text. Opens the person if only one matches. */
async function searchPeople(c: PageContext, q: string) {
  const { people } = await findPeople(c.var.ctx, { beginning: q, limit: 2, cursor: undefined });
  const isAlone = people.length === 0 || (people.length === 1 && people[0]?.distinctId === q);
  const open = `${pathIn(c, "people")}${queryString({ distinctId: q })}`;
  if (isAlone && c.req.query("cursor") === undefined) return c.redirect(open, 303);
  return listPage(c, {
    ...peopleList,
    above: () => (
      <p class="card">
        <a href={open}>Open the id “{q}”</a>, even if nothing is stored under it.
      </p>
    ),
  });
}

export const peopleRoutes = createDashboardRoutes()
  .get("/people", (c, next) => {
    const form = c.req.query();
    const distinctId = textField(form, "distinctId");
    if (distinctId !== undefined) return personPage(c, distinctId);
    const q = personSearch(form);
    return q === undefined ? next() : searchPeople(c, q);
  })
  .route("/", listRoutes(peopleList));
