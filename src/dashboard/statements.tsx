import { createStatementInput } from "../api/statements/create-statement.ts";
import { namesOfMany, readUnitNames } from "../books/prices/unit-names.ts";
import {
  createStatement,
  listStatements,
  readStatement,
  type StatementLineOutput,
  type StatementSummary,
  statementCsv,
} from "../books/statements/monthly-statements.ts";
import { AppLink, LinkButton } from "./app-link.tsx";
import { linkColumn, tagColumn, timeColumn } from "./columns.tsx";
import { Field } from "./fields.tsx";
import type { FigureName } from "./figures.tsx";
import { createDashboardRoutes, inPageMode, type PageContext, parseForm } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { amountText } from "./format.tsx";
import { page } from "./layout.tsx";
import { listAgain, listRoutes, type Resource, wholeList } from "./resource.tsx";
import { numberHead, Table } from "./table.tsx";
import { UnitLabel } from "./unit-amount.tsx";

const statementsList: Resource<StatementSummary> = {
  path: "statements",
  title: "Statements",
  section: "statements",
  about:
    "The credits of a month, by unit and pack, for accounting. It balances exactly. Months are in UTC, and a statement can be requested an hour after the month has ended.",
  columns: [
    linkColumn("month", "Month", ({ statementId }) => `statements/${statementId}`),
    tagColumn("status", "State", ({ status }) => (status === "ready" ? "good" : "pending")),
    timeColumn("madeAt", "Made", "not yet"),
    {
      name: "file",
      head: "",
      cell: ({ statementId, status }) =>
        status === "ready" ? <AppLink to={`statements/${statementId}.csv`}>CSV</AppLink> : "",
    },
  ],
  read: wholeList(async ({ var: { root, appId, mode } }) => (await listStatements(root, appId, mode)).statements),
  empty: "No statements yet. Request a month below.",
  below: (_, { rejection }) => (
    <FormCard
      action="statements"
      title="New statement"
      rejection={rejection}
      schema={createStatementInput}
      button="Make statement"
    >
      <Field label="Month (UTC)" name="month" placeholder="2026-11" />
    </FormCard>
  ),
};

interface StatementTerm {
  readonly label: string;
  readonly sign: 1 | -1;
  readonly of: (line: StatementLineOutput) => number;
  /** The figure that lists its entries. */
  readonly figure?: FigureName;
}

/** The terms between the opening and the closing amount. */
export const STATEMENT_TERMS: readonly StatementTerm[] = [
  { label: "Purchases", sign: 1, of: ({ granted }) => granted.purchase },
  { label: "Payments", sign: 1, of: ({ granted }) => granted.payment },
  { label: "Recurring grants", sign: 1, of: ({ granted }) => granted.recurring },
  { label: "Grants", sign: 1, of: ({ granted }) => granted.grant },
  { label: "Refund grants", sign: 1, of: ({ granted }) => granted.refund },
  { label: "Granted by hand", sign: 1, of: ({ granted }) => granted.manual },
  { label: "Spent", sign: -1, of: ({ spent }) => spent, figure: "spent" },
  { label: "Refunded", sign: -1, of: ({ refunded }) => refunded, figure: "refunded" },
  { label: "Taken back by payments", sign: -1, of: ({ taken }) => taken, figure: "refunded" },
  { label: "Restored to payments", sign: 1, of: ({ restored }) => restored },
  { label: "Revoked", sign: -1, of: ({ revoked }) => revoked },
  { label: "Adjusted", sign: 1, of: ({ adjusted }) => adjusted },
  { label: "Erased", sign: -1, of: ({ erased }) => erased },
  { label: "Expired", sign: -1, of: ({ expired }) => expired, figure: "expired" },
];

const STATEMENT_COLUMNS: readonly (readonly [head: string, of: StatementTerm["of"]])[] = [
  ["Opening", ({ opening }) => opening],
  ...STATEMENT_TERMS.map(({ label, sign, of }) => [`${sign === 1 ? "+" : "−"} ${label}`, of] as const),
  ["= Closing", ({ closing }) => closing],
  ["Held by reservations", ({ held }) => held],
];

const statementOfMode = async (c: PageContext, statementId: string) =>
  inPageMode(c, await readStatement(c.var.root, c.var.appId, statementId), "statement");

async function statementPage(c: PageContext, statementId: string) {
  const { month, lines } = await statementOfMode(c, statementId);
  const columns = STATEMENT_COLUMNS.filter(([, of]) => lines?.some((line) => of(line) !== 0));
  return page(
    c,
    { title: `Statement ${month}`, section: "statements" },
    lines === null ? (
      <p class="card">The statement is being made. Reload this page in a minute.</p>
    ) : (
      <section class="card">
        <Table
          label={`Statement ${month}`}
          head={["Pack", "Unit", ...columns.map(([head]) => numberHead(head))]}
          empty="Nothing was granted, spent or left in this month."
          rows={lines.map((line) => [
            line.packName,
            <UnitLabel unit={line.unit} />,
            ...columns.map(([, of]) => amountText(of(line))),
          ])}
        />
        <p class="soft">Columns without an amount are not shown. The CSV file has all of them.</p>
        <p>
          <LinkButton text="Save as CSV" to={`statements/${statementId}.csv`} />
        </p>
      </section>
    ),
  );
}

export const statementsRoutes = createDashboardRoutes()
  .route("/", listRoutes(statementsList))
  .post(
    "/statements",
    onSubmit(async ({ var: { admin, appId, mode, form } }) => {
      const input = parseForm(createStatementInput, { mode, month: form.month });
      return `statements/${(await createStatement(admin, appId, input)).statementId}`;
    }, listAgain(statementsList)),
  )
  .get("/statements/:statementId{stm_[^/]+\\.csv}", async (c) => {
    const { root, appId, mode } = c.var;
    const statement = await statementOfMode(c, c.req.param("statementId").slice(0, -".csv".length));
    const unitNames = namesOfMany(await readUnitNames(root, appId, mode));
    const text = statementCsv(statement, { isRaw: c.req.query("raw") === "true", unitNames });
    return c.body(text, 200, {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": 'attachment; filename="statement.csv"',
    });
  })
  .get("/statements/:statementId", (c) => statementPage(c, c.req.param("statementId")));
