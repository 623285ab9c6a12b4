import type { Child } from "hono/jsx";
import { environmentUsageInput } from "../api/apps/get-environment-usage.ts";
import { readUsageFigures, type UsageFigures } from "../books/usage/usage-figures.ts";
import { invalid } from "../errors.ts";
import { DAY_MS, iso, parseTimestamp } from "../lib/time.ts";
import type { Tab } from "./components.tsx";
import { Field } from "./fields.tsx";
import { catchRejection, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { amountText, queryString } from "./format.tsx";
import { page, sectionOfPath } from "./layout.tsx";
import { type NumberHead, Table } from "./table.tsx";

/** The sums of a day, a model or another group of usage. */
export type Used = UsageFigures["totals"]["byDay"][number];

const USAGE_DAYS_SHOWN = 30;
/** The most days of a page, which shows each of them. */
const USAGE_DAYS_MAX = 1_100;
const SHOWN_GROUPS_MAX = 200;

const usageDate = (atMs: number): string => iso(atMs).slice(0, 10);

/** Returns the days of the form, both included; by default the last 30. */
function daysAsked(c: PageContext, today: number) {
  const form = c.req.query();
  return {
    from: textField(form, "from") ?? usageDate(today - (USAGE_DAYS_SHOWN - 1) * DAY_MS),
    to: textField(form, "to") ?? usageDate(today),
  };
}

async function readDays(c: PageContext, days: { readonly from: string; readonly to: string }) {
  const { appId, mode } = c.var;
  const lastMs = parseTimestamp(`${days.to}T00:00:00Z`);
  const to = lastMs === null ? days.to : iso(lastMs + DAY_MS);
  const span = parseForm(environmentUsageInput, { mode, from: `${days.from}T00:00:00Z`, to, groupBy: "day" });
  if (span.to - span.from > USAGE_DAYS_MAX * DAY_MS) {
    throw invalid("to", `must end at most ${amountText(USAGE_DAYS_MAX)} days after it begins`);
  }
  return readUsageFigures(c.var.root, appId, span);
}

/** Shows the usage of some days, which a form chooses. `show` gets its figures, and the last day. */
export async function usageDaysPage(
  c: PageContext,
  title: string,
  show: (figures: UsageFigures, to: string) => Child | Promise<Child>,
) {
  const today = Math.floor(c.var.ctx.now() / DAY_MS) * DAY_MS;
  const days = daysAsked(c, today);
  const { result, rejection } = await catchRejection(async () => show(await readDays(c, days), days.to));
  const to = usageDate(today);
  const spans = [
    ["Today", to],
    ["7 days", usageDate(today - 6 * DAY_MS)],
    ["This month", `${to.slice(0, 8)}01`],
  ] as const;
  return page(
    c,
    { title, section: sectionOfPath(c), rejection },
    <>
      <FormCard
        action={c.req.path}
        method="get"
        button="Show"
        beside={
          <p class="ranges">
            {spans.map(([name, from]) => (
              <a href={`${c.req.path}${queryString({ from, to })}`}>{name}</a>
            ))}
          </p>
        }
        form={days}
        rejection={rejection}
      >
        <Field label="From (UTC)" name="from" type="date" />
        <Field label="To, included (UTC)" name="to" type="date" />
      </FormCard>
      {result}
    </>,
  );
}

/** Returns a function that gives a figure on each day, with 0 on days without usage. `to` is the last day. */
export function dailyValues({ byDay, from }: UsageFigures["totals"], to: string) {
  const usedOn = new Map(byDay.map((used) => [used.day, used]));
  const firstMs = Date.parse(from);
  const count = (Date.parse(to) - firstMs) / DAY_MS + 1;
  const dates = Array.from({ length: count }, (_, index) => usageDate(firstMs + index * DAY_MS));
  return (of: (used: Used) => number) =>
    dates.map((date) => {
      const used = usedOn.get(date);
      return { date, value: used === undefined ? 0 : of(used) };
    });
}

interface LeftOutProps {
  readonly of: Pick<UsageFigures["users"], "isTruncated" | "isIncomplete" | "from">;
  readonly lists: string;
  readonly max: number;
}

/** Says which usage some lists leave out. */
export const LeftOut = ({ of: { isTruncated, isIncomplete, from }, lists, max }: LeftOutProps) =>
  isTruncated && (
    <p class="card">
      {isIncomplete
        ? `${lists} have only a part of ${from}, because there is more usage than this page adds up.`
        : `${lists} begin on ${from}, because there is more usage than this page adds up.`}{" "}
      It adds up {amountText(max)} sums of a day, an event and a model. The API adds up 2,000,000:{" "}
      <code>GET /api/v1/admin/apps/…/usage</code>.
    </p>
  );

interface GroupedProps<Row> {
  readonly title: string;
  readonly head: readonly (string | NumberHead)[];
  readonly groups: readonly Row[];
  readonly cellsOf: (group: Row) => readonly Child[];
}

/** Returns the tab of a table of groups of usage. */
export const groupTab = <Row,>({ title, head, groups, cellsOf }: GroupedProps<Row>): Tab => {
  const id = title.toLowerCase().replaceAll(" ", "-");
  const children = (
    <section class="card">
      <Table
        label={title}
        head={head}
        empty="No usage in these days."
        csv={id}
        rows={groups.slice(0, SHOWN_GROUPS_MAX).map(cellsOf)}
      />
      {groups.length > SHOWN_GROUPS_MAX && (
        <p class="soft">
          The first {SHOWN_GROUPS_MAX} of {amountText(groups.length)}.
        </p>
      )}
    </section>
  );
  return { id, name: title, children };
};
