import type { Child } from "hono/jsx";
import { AppLink } from "./app-link.tsx";
import { RowMenu, Tag } from "./components.tsx";
import { amountText, moneyText, Time } from "./format.tsx";
import { BalanceLink, PersonLink, UserLink } from "./links.tsx";
import type { CellValue, ListColumn } from "./read-list.ts";
import { numberHead } from "./table.tsx";
import { PartOfAmount, UnitAmount } from "./unit-amount.tsx";

/**
 * This file has the columns that many lists share. Each is named after the field of the row that it shows, in the table and in the
 * CSV file alike.
 */

type Having<Name extends string, Value> = { readonly [Key in Name]: Value };
type SharedColumn<Name extends string, Value> = ListColumn<Having<Name, Value>>;

/** A column with its own cell, and its own value in the file. */
export const customColumn = <Row,>(
  name: string,
  head: string,
  cell: (row: Row) => Child,
  value: (row: Row) => CellValue,
): ListColumn<Row> => ({ name, head, cell, value });

/** A column of a field with its own cell. */
export const fieldColumn = <Row,>(name: keyof Row & string, head: string, cell: (row: Row) => Child): ListColumn<Row> =>
  customColumn(name, head, cell, (row) => cellValueOf(row[name]));

const cellValueOf = (value: unknown): CellValue =>
  value === null || value === undefined ? null : typeof value === "number" ? value : String(value);

/** A column of plain text. */
export const textColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, string | null> => ({
  name,
  head,
  cell: (row) => row[name] ?? "",
  value: (row) => row[name],
});

/** A column of ids and names that machines read. */
export const codeColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, string> => ({
  name,
  head,
  cell: (row) => <code>{row[name]}</code>,
  value: (row) => row[name],
});

/** A column of moments in the environment's time. */
export const timeColumn = <Name extends string>(
  name: Name,
  head: string,
  otherwise?: string,
  isReal = false,
): SharedColumn<Name, string | null> => ({
  name,
  head,
  cell: (row) => <Time at={row[name]} otherwise={otherwise} isReal={isReal} />,
  value: (row) => row[name],
});

/** A column of moments in real time, also in an environment with a test clock. */
export const realTimeColumn = <Name extends string>(name: Name, head: string, otherwise?: string) =>
  timeColumn(name, head, otherwise, true);

/** A column of counts and amounts. */
export const numberColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, number> => ({
  name,
  head: numberHead(head),
  cell: (row) => <span class="num">{amountText(row[name])}</span>,
  value: (row) => row[name],
});

/** Returns a function that declares a column of ids, each with a link. */
const idColumn =
  (Link: typeof UserLink) =>
  <Name extends string>(name: Name, head: string): SharedColumn<Name, string | null> => ({
    name,
    head,
    cell: (row) => {
      const id = row[name];
      return id === null ? "" : <Link id={id} />;
    },
    value: (row) => row[name],
  });

/** A column of users, each linked to its page. */
export const userColumn = idColumn(UserLink);

/** A column of distinct ids, each linked to the page of its person. */
export const personColumn = idColumn(PersonLink);

/** A column whose text is computed from the row, the same in the table and in the file. */
export const shownColumn = <Row,>(
  name: string,
  head: string,
  textOf: (row: Row) => string | null,
): ListColumn<Row> => ({ name, head, cell: (row) => textOf(row) ?? "", value: textOf });

/** A column of names or ids that each link to a page of the application. */
export const linkColumn = <Row,>(
  name: keyof Row & string,
  head: string,
  pathOf: (row: Row) => string,
): ListColumn<Row> => ({
  name,
  head,
  cell: (row) => <AppLink to={pathOf(row)}>{String(row[name])}</AppLink>,
  value: (row) => String(row[name]),
});

/** A column of states, each as a tag. */
export const tagColumn = <Row,>(
  name: keyof Row & string,
  head: string,
  kindOf: (row: Row) => string = (row) => String(row[name]),
): ListColumn<Row> => ({
  name,
  head,
  cell: (row) => <Tag kind={kindOf(row)}>{String(row[name])}</Tag>,
  value: (row) => String(row[name]),
});

/** A column of amounts, each with its unit. The file has the amount alone. */
export const quantityColumn = <Row,>(
  name: string,
  head: string,
  quantityOf: (row: Row) => readonly [amount: number | null, unit: string],
): ListColumn<Row> => ({
  name,
  head: numberHead(head),
  cell: (row) => {
    const [amount, unit] = quantityOf(row);
    return (
      <span class="num">
        <UnitAmount of={amount ?? 0} unit={unit} />
      </span>
    );
  },
  value: (row) => quantityOf(row)[0],
  sortKey: (row) => quantityOf(row).toReversed(),
});

/** A column of money: shown in its currency, saved in the currency's smallest units. */
export const moneyColumn = <Name extends string>(
  name: Name,
  head: string,
): ListColumn<Having<Name, number> & { readonly currency: string | null }> => ({
  name,
  head: numberHead(head),
  cell: (row) => moneyText(row[name], row.currency),
  value: (row) => row[name],
  sortKey: (row) => [row.currency, row[name]],
});

/** A balance in a list. Null where it is not known. */
interface ShownAmounts {
  readonly balanceId: string;
  readonly remaining: number | null;
  readonly initial: number | null;
  readonly unit: string | null;
}

/** The id of each balance, linked to its page. */
export const balanceColumn: ListColumn<Pick<ShownAmounts, "balanceId">> = {
  name: "balanceId",
  head: "Balance",
  cell: ({ balanceId }) => <BalanceLink id={balanceId} />,
  value: ({ balanceId }) => balanceId,
};

/** The amount that remains of each balance, with its unit. The file has the amount alone. */
export const remainingColumn = (head: string): ListColumn<Omit<ShownAmounts, "balanceId">> => ({
  name: "remaining",
  head: numberHead(head),
  cell: ({ remaining, initial, unit }) =>
    remaining === null || initial === null || unit === null ? (
      "not known"
    ) : (
      <span class="num">
        <PartOfAmount part={remaining} of={initial} unit={unit} />
      </span>
    ),
  value: ({ remaining }) => remaining,
  sortKey: ({ remaining, unit }) => [unit, remaining],
});

/** The last column: a menu with the pages of a row's actions. */
export const menuColumn = <Row,>(
  labelOf: (row: Row) => string,
  linksOf: (row: Row) => readonly (readonly [path: string, text: string])[],
): ListColumn<Row> => ({
  name: "actions",
  head: "",
  cell: (row) => (
    <RowMenu label={`Actions for ${labelOf(row)}`}>
      {linksOf(row).map(([path, text]) => (
        <AppLink to={path}>{text}</AppLink>
      ))}
    </RowMenu>
  ),
});
