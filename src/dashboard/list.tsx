import type { Child } from "hono/jsx";
import { Pager } from "./components.tsx";
import { amountText } from "./format.tsx";
import { Icon } from "./icons.tsx";
import { LIST_PAGE_ROWS, type ListColumn, READ_ROWS_MAX, type ShownList, sortKeyOf } from "./read-list.ts";
import { rowsText, Table, type TableProps } from "./table.tsx";

/** Declares that a table leaves out a column while it says nothing. */
export const rare = <Row,>(column: ListColumn<Row>): ListColumn<Row> => ({ ...column, isRare: true });

/** Returns the columns of a table of some rows. */
const columnsOfTable = <Row,>(columns: readonly ListColumn<Row>[], rows: readonly Row[], sortedBy?: string) =>
  columns.filter(({ name, head, value, isRare }) => {
    if (head === undefined) return false;
    return isRare !== true || name === sortedBy || rows.some((row) => Boolean(value?.(row)));
  });

interface RowsTableProps<Row> extends Omit<TableProps, "head" | "rows"> {
  readonly columns: readonly ListColumn<Row>[];
  readonly rows: readonly Row[];
}

/** Shows some rows as a table by the columns of a list. The script sorts it. */
export const RowsTable = <Row,>({ columns, rows, ...table }: RowsTableProps<Row>) => {
  const shown = columnsOfTable(columns, rows);
  return (
    <Table
      {...table}
      head={shown.map(({ head = "" }) => head)}
      rows={rows.map((row) => shown.map(({ cell }) => cell?.(row) ?? ""))}
    />
  );
};

interface ListTableProps<Row> {
  readonly label: string;
  readonly columns: readonly ListColumn<Row>[];
  readonly list: ShownList<Row>;
  readonly empty: Child;
  /** Returns the page of this list with other fields in its query, and the same filters. */
  readonly hrefOf: (fields: Readonly<Record<string, string>>) => string;
  /** Does the same for the list's CSV file. */
  readonly csvHrefOf: (fields: Readonly<Record<string, string>>) => string;
  /** The texts of the links to other pages of the list in its own order. */
  readonly words?: readonly [first: string, next: string];
}

/** Shows a page of a list. The heads of its columns sort it, without a script. */
export const ListTable = <Row,>(props: ListTableProps<Row>) => {
  const { label, columns, list, empty, hrefOf, csvHrefOf, words } = props;
  const { sorted, nextCursor, isLater } = list;
  const shown = columnsOfTable(columns, list.rows, sorted?.name);
  const heads = shown.map((each) => {
    const { name, head = "" } = each;
    if (sortKeyOf(each) === undefined) return head;
    const order = sorted?.name === name ? sorted.order : null;
    const href = hrefOf({ sort: name, order: order === "desc" ? "asc" : "desc" });
    return {
      href,
      order,
      ...(typeof head === "string" ? { text: head, isNumber: false } : { text: head.number, isNumber: true }),
    };
  });
  const isMore = sorted !== null && sorted.page * LIST_PAGE_ROWS < sorted.total;
  const page = (number: number) =>
    sorted === null ? "" : hrefOf({ sort: sorted.name, order: sorted.order, page: `${number}` });
  return (
    <>
      <Table
        label={label}
        head={heads}
        rows={list.rows.map((row) => shown.map(({ cell }) => cell?.(row) ?? ""))}
        empty={empty}
        foot={
          <ListFoot
            list={list}
            csvHref={csvHrefOf(sorted === null ? {} : { sort: sorted.name, order: sorted.order })}
            ownOrder={hrefOf({})}
          />
        }
      />
      {sorted === null ? (
        <Pager
          first={isLater ? hrefOf({}) : null}
          next={nextCursor && hrefOf({ cursor: nextCursor })}
          {...(words === undefined ? {} : { words })}
        />
      ) : (
        <Pager
          first={isLater ? page(1) : null}
          next={isMore ? page(sorted.page + 1) : null}
          words={["First", "More"]}
        />
      )}
    </>
  );
};

interface ListFootProps {
  readonly list: Pick<ShownList<unknown>, "rows" | "nextCursor" | "isLater"> & {
    readonly sorted: { readonly total: number; readonly isTruncated: boolean } | null;
  };
  readonly csvHref: string;
  readonly ownOrder: string;
}

const ListFoot = ({ list: { rows, nextCursor, isLater, sorted }, csvHref, ownOrder }: ListFootProps) => (
  <div class="table-foot">
    <span class="soft">
      {sorted === null ? (
        <>
          {rowsText(rows.length)}
          {(nextCursor !== null || isLater) &&
            ` on this page. Sorting and CSV are of the whole list, at most its first ${amountText(READ_ROWS_MAX)} rows.`}
        </>
      ) : (
        <>
          {sorted.isTruncated
            ? `Sorted among the list's first ${amountText(sorted.total)} rows. Others may follow.`
            : `Sorted among all ${amountText(sorted.total)} rows.`}{" "}
          <a href={ownOrder}>Default order</a>
        </>
      )}
    </span>
    <a class="button quiet small" href={csvHref} download>
      <Icon name="download" />
      CSV
    </a>
  </div>
);
