import type { Child } from "hono/jsx";
import type { PurserError } from "../errors.ts";
import { pathIn } from "./app-link.tsx";
import { Choice, Field, type FilledForm, FormContext, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type Form, type PageContext } from "./form.ts";
import type { ShowForm } from "./form-card.tsx";
import { amountText, queryString } from "./format.tsx";
import { page } from "./layout.tsx";
import { ListTable } from "./list.tsx";
import { csvFile, type ListColumn, type ListPage, readShownList, type ShownList } from "./read-list.ts";
import type { Section } from "./shell.tsx";

/** A filter of a list: a choice if it has options, kept unseen if it has no label, otherwise a text. */
interface Filter {
  /** The field of the query. Links to other pages of the list, and the CSV file, keep it. */
  readonly name: string;
  readonly label?: string;
  readonly options?: readonly (string | readonly [value: string, label: string])[];
  readonly type?: "date" | "datetime-local";
  readonly placeholder?: string;
}

/** A page of a list. A list may read more with it, which the parts around the table show. */
type ListAnswer<Row, More> = { readonly rows: readonly Row[]; readonly nextCursor: string | null } & More;

/** The list, for the parts around its table. */
interface Around<Row, More> {
  readonly form: Form;
  readonly list: ShownList<Row>;
  /** The first page that was read. Null if the list was rejected. */
  readonly first: ListAnswer<Row, More> | null;
  readonly rejection: PurserError | undefined;
}
export type AroundPart<Row, More = unknown> = (c: PageContext, around: Around<Row, More>) => Child | Promise<Child>;

/** A list of the dashboard, declared: its page and its CSV file are made of this alone. */
export interface Resource<Row, More = unknown> {
  /** The path within the application or from the root. Parameters such as `:webhookId` are those of the request. */
  readonly path: string;
  /** The path and name of the CSV file, without `.csv`. By default the path of the page. */
  readonly file?: string;
  readonly title: string | ((form: Form, first: ListAnswer<Row, More> | null) => string);
  readonly section?: Section;
  /** The name of the table. By default the heading, or else the title. */
  readonly label?: string;
  /** The head and the id of the list's card, on a page with other cards. */
  readonly heading?: string;
  readonly id?: string;
  /** Says what the list has, above it. */
  readonly about?: Child | ((c: PageContext, form: Form) => Child);
  readonly columns: readonly ListColumn<Row>[] | ((form: Form) => readonly ListColumn<Row>[]);
  readonly filters?:
    | readonly Filter[]
    | ((c: PageContext, form: Form) => readonly Filter[] | Promise<readonly Filter[]>);
  /** The fields that the query leaves out. */
  readonly defaults?: (c: PageContext) => Form;
  /** Returns the reader of the list's pages. It may check the form. */
  readonly read: (c: PageContext, form: Form) => (page: ListPage) => Promise<ListAnswer<Row, More>>;
  /** Adds to the rows of a page what only the page shows. */
  readonly complete?: (c: PageContext, rows: readonly Row[]) => Promise<readonly Row[]>;
  /** Other fields that links to the list keep. */
  readonly kept?: (form: Form, first: ListAnswer<Row, More> | null) => Form;
  readonly empty: Child | ((form: Form, list: ShownList<Row>) => Child);
  /** The texts of the links to other pages. */
  readonly words?: readonly [first: string, next: string];
  /** How many of which rows a page searches for those that pass the filters. Older pages may have more. */
  readonly searched?: readonly [rowsMax: number, rows: string];
  /** The texts after an action. */
  readonly notices?: Readonly<Record<string, string>>;
  /** Buttons beside the title. */
  readonly actions?: (c: PageContext) => Child;
  /** Parts above and below the list, and above and below its table. */
  readonly above?: AroundPart<Row, More>;
  readonly head?: AroundPart<Row, More>;
  readonly foot?: AroundPart<Row, More>;
  readonly below?: AroundPart<Row, More>;
}

const NO_ROWS = { rows: [], nextCursor: null, isLater: false, sorted: null };

/** Returns the reader of a list that is read at once. */
export const wholeList =
  <Row,>(readRows: (c: PageContext, form: Form) => Promise<readonly Row[]>) =>
  (c: PageContext, form: Form) =>
  async () => ({ rows: await readRows(c, form), nextCursor: null });

const formOf = <Row, More>({ defaults }: Resource<Row, More>, c: PageContext): Form => ({
  ...defaults?.(c),
  ...Object.fromEntries(Object.entries(c.req.query()).filter(([, text]) => text !== "")),
});

/** Returns a path with the parameters of the request. */
const filledPath = (c: PageContext, path: string): string =>
  path.replaceAll(/:(\w+)/g, (_, name) => encodeURIComponent(c.req.param(name) ?? ""));

const columnsOf = <Row, More>({ columns }: Resource<Row, More>, form: Form) =>
  typeof columns === "function" ? columns(form) : columns;

/** Shows the filters in one row, with a button. Nothing if all are kept unseen. */
const FilterForm = ({ action, filters, ...filled }: FilledForm & { action: string; filters: readonly Filter[] }) =>
  filters.every(({ label }) => label === undefined) ? null : (
    <FormContext.Provider value={filled}>
      <form method="get" action={action} class="row filters">
        {filters.map(({ name, label, options, ...text }) =>
          label === undefined ? (
            <Hidden fields={filled.form[name] === undefined ? {} : { [name]: filled.form[name] }} />
          ) : options === undefined ? (
            <Field label={label} name={name} {...text} />
          ) : (
            <Choice label={label} name={name} options={options} />
          ),
        )}
        <button type="submit" class="quiet">
          {filters.some(({ name }) => name === "q") ? "Search" : "Filter"}
        </button>
      </form>
    </FormContext.Provider>
  );

/** A resource's list as it was read. */
interface ReadList<Row, More> extends Around<Row, More> {
  /** The list as a card. */
  readonly card: Child;
}

/** Reads the part of a resource's list that the query asks for, as a part of a page. */
export async function readListCard<Row, More>(
  c: PageContext,
  resource: Resource<Row, More>,
): Promise<ReadList<Row, More>> {
  const { path, file = path, id, heading, empty, words, about, searched, complete } = resource;
  const form = formOf(resource, c);
  const columns = columnsOf(resource, form);
  const filters = typeof resource.filters === "function" ? await resource.filters(c, form) : (resource.filters ?? []);
  let first: ListAnswer<Row, More> | null = null;
  const { result, rejection } = await catchRejection(async () => {
    const read = resource.read(c, form);
    const list = await readShownList(form, columns, async (each) => {
      const answer = await read(each);
      first ??= answer;
      return answer;
    });
    return complete === undefined ? list : { ...list, rows: await complete(c, list.rows) };
  });
  const list = result ?? NO_ROWS;
  const around: Around<Row, More> = { form, list, first, rejection };
  const kept = {
    ...Object.fromEntries(filters.map(({ name }) => [name, form[name]])),
    ...resource.kept?.(form, first),
  };
  const hash = id === undefined ? "" : `#${id}`;
  const hrefOf = (to: string) => (fields: Readonly<Record<string, string>>) =>
    `${pathIn(c, filledPath(c, to))}${queryString({ ...kept, ...fields })}`;
  const card = (
    <section class="card" id={id}>
      {heading !== undefined && <h2>{heading}</h2>}
      {about !== undefined && <p class="soft">{typeof about === "function" ? about(c, form) : about}</p>}
      {await resource.head?.(c, around)}
      <FilterForm action={pathIn(c, filledPath(c, path)) + hash} filters={filters} form={form} rejection={rejection} />
      <ListTable
        label={resource.label ?? heading ?? titleOf(resource, around)}
        columns={columns}
        list={list}
        empty={typeof empty === "function" ? empty(form, list) : empty}
        hrefOf={(fields) => hrefOf(path)(fields) + hash}
        csvHrefOf={hrefOf(`${file}.csv`)}
        {...(words === undefined ? {} : { words })}
      />
      {searched !== undefined && list.nextCursor !== null && filters.some(({ name, label }) => label && form[name]) && (
        <p class="soft">
          This page searched {amountText(searched[0])} {searched[1]}. Older pages may have more.
        </p>
      )}
      {await resource.foot?.(c, around)}
    </section>
  );
  return { ...around, card };
}

const titleOf = <Row, More>({ title }: Resource<Row, More>, { form, first }: Around<Row, More>): string =>
  typeof title === "function" ? title(form, first) : title;

/** Shows a resource's list, after a rejected form with the rejection. */
export async function listPage<Row, More>(c: PageContext, resource: Resource<Row, More>, rejected?: PurserError) {
  const { section, notices = {}, actions, above, below } = resource;
  const { card, ...list } = await readListCard(c, resource);
  // The path names nothing.
  if (list.rejection?.code === "not_found") throw list.rejection;
  const around = { ...list, rejection: rejected ?? list.rejection };
  return page(
    c,
    {
      title: titleOf(resource, list),
      section,
      rejection: around.rejection,
      notice: notices[list.form.notice ?? ""],
      actions: actions?.(c),
    },
    <>
      {await above?.(c, around)}
      {card}
      {await below?.(c, around)}
    </>,
  );
}

/** Shows the resource's list after a rejected form of its page. */
export const listAgain =
  <Row, More>(resource: Resource<Row, More>): ShowForm =>
  (c, _form, rejection) =>
    listPage(c, resource, rejection);

/** Returns a resource's page and its CSV file. */
export const listHandlers = <Row, More>(resource: Resource<Row, More>) => ({
  page: (c: PageContext) => listPage(c, resource),
  csv: (c: PageContext) => {
    const form = formOf(resource, c);
    const { path, file = path } = resource;
    const name = filledPath(c, file).replace("/admin/apps", "apps").replaceAll("/", "-");
    return csvFile(c, name, columnsOf(resource, form), resource.read(c, form));
  },
});

/** Returns the routes of a resource: its page, and its CSV file. */
export function listRoutes<Row, More>(resource: Resource<Row, More>) {
  const { page, csv } = listHandlers(resource);
  const routeOf = (path: string) => (path.startsWith("/") ? path.slice("/admin".length) : `/${path}`);
  const { path, file = path } = resource;
  return createDashboardRoutes()
    .get(routeOf(path), page)
    .get(routeOf(`${file}.csv`), csv);
}
