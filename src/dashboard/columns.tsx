import type { Context } from "hono";
import { numberHead, Tag } from "./components.tsx";
import type { DashboardEnv } from "./form.ts";
import { amountText, Time } from "./format.tsx";
import { UserLink } from "./links.tsx";
import type { ListColumn } from "./list.tsx";
import { UnitAmount } from "./unit-amount.tsx";

/**
 * This file has the columns that many lists share. Each is named after the field of the row that it shows, in the table and in the
 * CSV file alike.
 */

type Having<Name extends string, Value> = { readonly [Key in Name]: Value };
type SharedColumn<Name extends string, Value> = ListColumn<Having<Name, Value>, Context<DashboardEnv>>;

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

/** A column of moments. */
export const timeColumn = <Name extends string>(
  name: Name,
  head: string,
  otherwise?: string,
): SharedColumn<Name, string | null> => ({
  name,
  head,
  cell: (row) => <Time at={row[name]} {...(otherwise === undefined ? {} : { otherwise })} />,
  value: (row) => row[name],
});

/** A column of counts and amounts. */
export const numberColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, number> => ({
  name,
  head: numberHead(head),
  cell: (row) => <span class="num">{amountText(row[name])}</span>,
  value: (row) => row[name],
});

/** A column of users, each linked to its page. */
export const userColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, string | null> => ({
  name,
  head,
  cell: (row, c) => {
    const id = row[name];
    return id === null ? "" : <UserLink c={c} id={id} />;
  },
  value: (row) => row[name],
});

/** A column of states, each in its color. */
export const tagColumn = <Name extends string>(name: Name, head: string): SharedColumn<Name, string> => ({
  name,
  head,
  cell: (row) => <Tag kind={row[name]}>{row[name]}</Tag>,
  value: (row) => row[name],
});

interface PartlySpent {
  readonly remaining: number;
  readonly initial: number;
  readonly unit: string;
}

/** What remains of a balance, and of how much. */
export const REMAINING_COLUMNS: readonly ListColumn<PartlySpent, unknown>[] = [
  {
    name: "remaining",
    head: numberHead("Remaining"),
    cell: ({ remaining, initial, unit }) => (
      <span class="num">
        {amountText(remaining)} of <UnitAmount of={initial} unit={unit} />
      </span>
    ),
    value: ({ remaining }) => remaining,
    sortKey: ({ unit, remaining }) => [unit, remaining],
  },
  { name: "initial", value: ({ initial }) => initial },
  { name: "unit", value: ({ unit }) => unit },
];
