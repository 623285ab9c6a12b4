import type { Child } from "hono/jsx";
import { Card, type CardProps, nextId } from "./components.tsx";
import { Icon } from "./icons.tsx";
import { UnitLabel } from "./unit-amount.tsx";

/** The head of a column of right-aligned numbers. */
export interface NumberHead {
  readonly number: string;
  /** Whether it is a unit, whose name the application may choose (PR7). */
  readonly isUnit?: boolean;
}
/** The head of a column of amounts in a unit. */
export const unitHead = (unit: string): NumberHead => ({ number: unit, isUnit: true });
export const numberHead = (number: string): NumberHead => ({ number });

/** The head of a column by which a link sorts the whole list. */
export interface SortedHead {
  readonly text: string;
  readonly isNumber: boolean;
  readonly href: string;
  /** Null when the list is not sorted by this column. */
  readonly order: "asc" | "desc" | null;
}
type Head = string | NumberHead | SortedHead;

export interface TableProps {
  readonly label: string;
  /** A column without a name has the row's menu or button. */
  readonly head: readonly Head[];
  readonly rows: readonly (readonly Child[])[];
  readonly empty: Child;
  /** The name of the CSV file that the script makes of the page. */
  readonly csv?: string;
  /** Shown below the rows. */
  readonly foot?: Child;
}

const classOf = (head: Head | undefined): string | undefined => {
  if (typeof head !== "object") return head === "" ? "menu" : undefined;
  return "number" in head || head.isNumber ? "end" : undefined;
};

const ARIA_SORT = { asc: "ascending", desc: "descending" } as const;
const HeadCell = ({ head }: { head: Head }) => {
  if (typeof head === "string" || "number" in head) {
    return (
      <th scope="col" class={classOf(head)}>
        {typeof head === "string" ? head : head.isUnit === true ? <UnitLabel unit={head.number} /> : head.number}
      </th>
    );
  }
  return (
    <th scope="col" class={classOf(head)} aria-sort={head.order === null ? undefined : ARIA_SORT[head.order]}>
      <a href={head.href}>{head.text}</a>
    </th>
  );
};

export const rowsText = (count: number): string => `${count} ${count === 1 ? "row" : "rows"}`;

/** A phone shows this many rows of a table, and the others on demand. The style sheet has the same number. */
const PHONE_ROWS = 6;

/**
 * Shows a table that scrolls on a narrow screen, also by keyboard. The script sorts the page when a column's head is clicked,
 * unless the head is a link that sorts the whole list.
 */
export const Table = ({ label, head, rows, empty, csv, foot }: TableProps) => {
  if (rows.length === 0) return <div>{typeof empty === "string" ? <p class="empty">{empty}</p> : empty}</div>;
  const id = nextId("table");
  return (
    <>
      <section id={id} class="scroll" tabindex={0} aria-label={label}>
        <table>
          <thead>
            <tr>
              {head.map((cell) => (
                <HeadCell head={cell} />
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>
                {row.map((cell, column) => (
                  <td class={classOf(head[column])}>{cell}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {rows.length > PHONE_ROWS && (
        <label class="all-rows">
          <input type="checkbox" /> Show all {rows.length} rows
        </label>
      )}
      {csv !== undefined && (
        <div class="table-foot js">
          <span class="soft">{rowsText(rows.length)}</span>
          <button type="button" class="quiet small" data-csv={id} data-file={csv}>
            <Icon name="download" />
            CSV
          </button>
        </div>
      )}
      {foot}
    </>
  );
};

/** Shows a table as a part of a page. Its name is the head, unless it has a label. */
export const TableCard = ({
  title,
  id,
  about,
  children,
  label = title,
  ...table
}: CardProps & Omit<TableProps, "label"> & { readonly label?: string }) => (
  <Card title={title} id={id} about={about}>
    <Table label={label} {...table} />
    {children}
  </Card>
);
