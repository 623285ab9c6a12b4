import type { Context } from "hono";
import { createStatementInput } from "../api/statements/create-statement.ts";
import { namesOfMany, readUnitNames } from "../books/prices/unit-names.ts";
import {
  createStatement,
  listStatements,
  readStatement,
  type StatementLineOutput,
  statementCsv,
} from "../books/statements/monthly-statements.ts";
import type { PurserError } from "../errors.ts";
import { numberHead, Table, Tag } from "./components.tsx";
import { Field } from "./fields.tsx";
import type { FigureName } from "./figures.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, parseForm } from "./form.ts";
import { amountText, Time } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";

async function listPage(c: Context<DashboardEnv>, rejection?: PurserError) {
  const { appId, mode } = c.var.ctx.environment;
  const { statements } = await listStatements(c.var.root, appId, mode);
  return page(
    c,
    { title: "Statements", section: "statements", rejection },
    <>
      <section class="card">
        <p class="soft">
          The credits of a month, by unit and pack, for accounting. It balances exactly. Months are in UTC, and a
          statement can be requested an hour after the month has ended.
        </p>
        <Table
          label="Statements"
          csv="statements"
          head={["Month", "State", "Made", ""]}
          empty="No statements yet. Request a month below."
          rows={statements.map(({ statementId, month, status, madeAt }) => [
            <a href={pathIn(c, `statements/${statementId}`)}>{month}</a>,
            <Tag kind={status === "ready" ? "good" : "pending"}>{status}</Tag>,
            <Time at={madeAt} otherwise="not yet" />,
            status === "ready" ? <a href={pathIn(c, `statements/${statementId}.csv`)}>CSV</a> : "",
          ])}
        />
      </section>
      <form method="post" action={pathIn(c, "statements")} class="card">
        <h2>New statement</h2>
        <FormToken c={c} />
        <div class="row">
          <Field
            label="Month (UTC)"
            name="month"
            placeholder="2026-11"
            value={c.var.form.month}
            required
            rejection={rejection}
          />
          <button type="submit">Make statement</button>
        </div>
      </form>
    </>,
  );
}

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

async function statementPage(c: Context<DashboardEnv>, statementId: string) {
  const { appId } = c.var.ctx.environment;
  const { month, lines } = await readStatement(c.var.root, appId, statementId);
  return page(
    c,
    { title: `Statement ${month}`, section: "statements" },
    lines === null ? (
      <p class="card">The statement is being made. Reload this page in a minute.</p>
    ) : (
      <section class="card">
        <Table
          label={`Statement ${month}`}
          head={["Pack", "Unit", ...STATEMENT_COLUMNS.map(([head]) => numberHead(head))]}
          empty="Nothing was granted, spent or left in this month."
          rows={lines.map((line) => [
            line.packName,
            line.unit,
            ...STATEMENT_COLUMNS.map(([, of]) => amountText(of(line))),
          ])}
        />
        <p>
          <a class="button quiet" href={pathIn(c, `statements/${statementId}.csv`)}>
            Save as CSV
          </a>
        </p>
      </section>
    ),
  );
}

export const statementsRoutes = createDashboardRoutes()
  .get("/statements", (c) => listPage(c))
  .post("/statements", async (c) => {
    const { appId, mode } = c.var.ctx.environment;
    const created = await catchRejection(async () => {
      const input = parseForm(createStatementInput, { mode, month: c.var.form.month });
      return createStatement(c.var.admin, appId, input);
    });
    if (created.rejection !== undefined) return listPage(c, created.rejection);
    return c.redirect(pathIn(c, `statements/${created.result.statementId}`), 303);
  })
  .get("/statements/:statementId{stm_[^/]+\\.csv}", async (c) => {
    const { appId } = c.var.ctx.environment;
    const statement = await readStatement(c.var.root, appId, c.req.param("statementId").slice(0, -".csv".length));
    const unitNames = namesOfMany(await readUnitNames(c.var.root, appId, statement.mode));
    const text = statementCsv(statement, { isRaw: c.req.query("raw") === "true", unitNames });
    return c.body(text, 200, {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": 'attachment; filename="statement.csv"',
    });
  })
  .get("/statements/:statementId", (c) => statementPage(c, c.req.param("statementId")));
