import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { createDashboardRoutes, type DashboardEnv, type Form } from "./form.ts";
import { queryString } from "./format.tsx";
import { page, pathIn } from "./layout.tsx";
import { csvFile, type ListColumn, type ListPage, ListTable, readShownList } from "./list.tsx";
import type { Section } from "./shell.tsx";

/** A list of the dashboard, declared: its page and its CSV file are made of this alone. */
export interface Resource<Row> {
  /** The path within the application, and the name of the CSV file. */
  readonly path: string;
  readonly title: string;
  readonly section: Section;
  /** Says what the list has, above it. */
  readonly about: Child;
  readonly columns: readonly ListColumn<Row, Context<DashboardEnv>>[];
  /** The fields of the query that narrow the list. Links to other pages and the CSV file keep them. */
  readonly filters: readonly string[];
  /** Shows the filters. */
  readonly filterForm?: (c: Context<DashboardEnv>, form: Form) => Child;
  readonly read: (
    c: Context<DashboardEnv>,
    form: Form,
    page: ListPage,
  ) => Promise<{ readonly rows: readonly Row[]; readonly nextCursor: string | null }>;
  readonly empty: Child;
  /** The texts of the links to other pages. */
  readonly words: readonly [first: string, next: string];
}

/** Returns the routes of a resource: its page, and its CSV file. */
export function listRoutes<Row>(resource: Resource<Row>) {
  const { path, title, section, about, columns, filters, filterForm, read, empty, words } = resource;
  const kept = (form: Form) => Object.fromEntries(filters.map((name) => [name, form[name]]));
  return createDashboardRoutes()
    .get(`/${path}`, async (c) => {
      const form = c.req.query();
      const list = await readShownList(form, columns, (each) => read(c, form, each));
      return page(
        c,
        { title, section },
        <>
          {filterForm?.(c, form)}
          <section class="card">
            <p class="soft">{about}</p>
            <ListTable
              label={title}
              columns={columns}
              list={list}
              view={c}
              empty={empty}
              hrefOf={(fields) => `${pathIn(c, path)}${queryString({ ...kept(form), ...fields })}`}
              csvHrefOf={(fields) => `${pathIn(c, `${path}.csv`)}${queryString({ ...kept(form), ...fields })}`}
              words={words}
            />
          </section>
        </>,
      );
    })
    .get(`/${path}.csv`, (c) => {
      const form = c.req.query();
      return csvFile(c, path.replaceAll("/", "-"), columns, (each) => read(c, form, each));
    });
}
