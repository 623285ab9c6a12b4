import { and, desc, eq, not, sql } from "drizzle-orm";
import { inEnvironmentOf, requireApp, requireEnvironment } from "../../catalog/apps.ts";
import { insertAuditEntry, newAuditEntry } from "../../catalog/audit.ts";
import { drizzle, fields, hasRow, insertFrom, query, type RowOf, type ValueOf } from "../../db/query.ts";
import { environments, statementLines, statements } from "../../db/schema.ts";
import { all, batch } from "../../db/sql.ts";
import { invalid, PurserError, temporarilyUnavailable } from "../../errors.ts";
import { csvText } from "../../lib/encoding.ts";
import { HOUR_MS, iso } from "../../lib/time.ts";
import type { AdminCtx, Mode, SystemCtx } from "../../runtime.ts";
import { exactAmount, type Unit } from "../amounts/amount.ts";
import { spanOfMonth } from "../ledger/calendar.ts";
import { COLUMNS, type Column, readAmounts } from "./lines.ts";

export interface StatementLineOutput {
  readonly unit: Unit;
  readonly packId: string;
  readonly packName: string;
  readonly opening: number;
  readonly granted: {
    readonly purchase: number;
    readonly grant: number;
    readonly refund: number;
    readonly manual: number;
    readonly payment: number;
    readonly recurring: number;
  };
  readonly spent: number;
  readonly refunded: number;
  readonly taken: number;
  readonly restored: number;
  readonly revoked: number;
  readonly adjusted: number;
  readonly erased: number;
  readonly expired: number;
  readonly closing: number;
  readonly held: number;
}

export interface StatementSummary {
  readonly statementId: string;
  readonly mode: Mode;
  readonly month: string;
  readonly status: "ready" | "running";
  readonly madeAt: string | null;
}

export interface StatementOutput extends StatementSummary {
  readonly lines: StatementLineOutput[] | null;
}

export interface CreateStatementInput {
  readonly mode: Mode;
  readonly month: string;
}

export interface StatementListOutput {
  readonly statements: StatementSummary[];
}

/** How long after its end a month closes. No isolate's clock is behind by this much. */
export const CLOSES_AFTER_MS = HOUR_MS;

const statementFields = () => ({
  ...fields(statements, "id", "month", "completedAtMs"),
  ...fields(environments, "mode"),
});

function presentSummary({
  id,
  month,
  completedAtMs,
  mode,
}: RowOf<ReturnType<typeof statementFields>>): StatementSummary {
  return {
    statementId: id,
    mode,
    month,
    status: completedAtMs === null ? "running" : "ready",
    madeAt: completedAtMs === null ? null : iso(completedAtMs),
  };
}

type OfMonth = { environmentId: number; month: string };
const ofMonth = (value: ValueOf<OfMonth>) =>
  and(eq(statements.environmentId, value("environmentId")), eq(statements.month, value("month")));
const isNewStatement = (value: ValueOf<OfMonth>) => not(hasRow(statements, ofMonth(value)));
const auditStatementRequested = insertAuditEntry<OfMonth>(isNewStatement);
const insertStatement = query((value: ValueOf<OfMonth & { statementId: string; nowMs: number }>) =>
  insertFrom(
    statements,
    {
      environmentId: value("environmentId"),
      month: value("month"),
      id: value("statementId"),
      afterAccountId: sql`0`,
      requestedAtMs: value("nowMs"),
    },
    sql`WHERE ${isNewStatement(value)}`,
  ),
);
const selectId = query((value: ValueOf<OfMonth>) =>
  drizzle.select(fields(statements, "id")).from(statements).where(ofMonth(value)),
);

/**
 * Requests the statement of a past month, which the cron then makes. A repeat returns the existing one. Throws `not_found`, and
 * `invalid_request` until an hour after the month's end in the environment's time.
 */
export async function createStatement(
  admin: AdminCtx,
  appId: string,
  { mode, month }: CreateStatementInput,
): Promise<StatementOutput> {
  const span = spanOfMonth(month);
  if (span === null) throw invalid("month", "must be a month such as `2026-11`");
  const environment = await requireEnvironment(admin, appId, mode);
  const opensAtMs = span.toMs + CLOSES_AFTER_MS;
  if (inEnvironmentOf(admin, environment).now() < opensAtMs) {
    throw invalid("month", `must have ended an hour ago: request it from ${iso(opensAtMs)} on`);
  }
  const key = { environmentId: environment.id, month };
  const statementId = admin.newId("stm_");
  const auditEntry = newAuditEntry(admin, {
    appId,
    action: "statement.created",
    target: statementId,
    details: { mode, month },
  });
  const [, , [first]] = await batch(admin.db, [
    auditStatementRequested({ ...auditEntry, ...key }),
    insertStatement({ ...key, statementId, nowMs: admin.now() }),
    selectId(key),
  ]);
  return readStatement(admin, appId, first?.id ?? statementId);
}

const selectStatements = query((value: ValueOf<{ environmentId: number }>) =>
  drizzle
    .select(statementFields())
    .from(statements)
    .innerJoin(environments, eq(environments.id, statements.environmentId))
    .where(eq(statements.environmentId, value("environmentId")))
    .orderBy(desc(statements.month)),
);

/** Returns the statements of one mode without their lines, the newest month first. Throws `not_found`. */
export async function listStatements(root: SystemCtx, appId: string, mode: Mode): Promise<StatementListOutput> {
  const { id: environmentId } = await requireEnvironment(root, appId, mode);
  return { statements: (await all(root.db, selectStatements({ environmentId }))).map(presentSummary) };
}

type StatementOfApp = { appId: string; statementId: string };
const selectStatement = query((value: ValueOf<StatementOfApp>) =>
  drizzle
    .select(statementFields())
    .from(statements)
    .innerJoin(environments, eq(environments.id, statements.environmentId))
    .where(and(eq(statements.id, value("statementId")), eq(environments.appId, value("appId")))),
);
const selectLines = query((value: ValueOf<StatementOfApp>) =>
  drizzle
    .select(fields(statementLines))
    .from(statementLines)
    .where(eq(statementLines.statementId, value("statementId")))
    .orderBy(statementLines.unit, statementLines.packId),
);

type LineRow = RowOf<ReturnType<typeof lineFields>>;
const lineFields = () => fields(statementLines);

function presentLine({ unit, packId, packName, amounts: stored }: LineRow): StatementLineOutput {
  const amounts = readAmounts(stored);
  const amountOf = (column: Column) => exactAmount(unit, amounts[column]);
  return {
    ...{ unit, packId, packName },
    opening: amountOf("opening"),
    granted: {
      purchase: amountOf("granted.purchase"),
      grant: amountOf("granted.grant"),
      refund: amountOf("granted.refund"),
      manual: amountOf("granted.manual"),
      payment: amountOf("granted.payment"),
      recurring: amountOf("granted.recurring"),
    },
    spent: amountOf("spent"),
    refunded: amountOf("refunded"),
    taken: amountOf("taken"),
    restored: amountOf("restored"),
    revoked: amountOf("revoked"),
    adjusted: amountOf("adjusted"),
    erased: amountOf("erased"),
    expired: amountOf("expired"),
    closing: amountOf("closing"),
    held: amountOf("held"),
  };
}

const isZero = ({ amounts }: LineRow): boolean => COLUMNS.every((column) => readAmounts(amounts)[column] === 0n);

/** Returns a statement with its lines, which are null while it is being made. Throws `not_found`. */
export async function readStatement(root: SystemCtx, appId: string, statementId: string): Promise<StatementOutput> {
  const [[row], lines] = await batch(root.db, [
    selectStatement({ appId, statementId }),
    selectLines({ appId, statementId }),
  ]);
  if (row === undefined) {
    await requireApp(root, appId);
    throw new PurserError("not_found", "The application has no such statement. Ids begin with `stm_`.", {
      param: "statementId",
    });
  }
  // Lines whose amounts are all 0 are left out.
  const shown = row.completedAtMs === null ? null : lines.filter((line) => !isZero(line)).map(presentLine);
  return { ...presentSummary(row), lines: shown };
}

/**
 * Returns the statement as CSV, with a header row. If some unit has a name, the last column has the names (PR7). Throws
 * `temporarily_unavailable` while it is being made.
 */
export function statementCsv(
  { lines }: StatementOutput,
  { isRaw, unitNames }: { readonly isRaw: boolean; readonly unitNames: ReadonlyMap<string, string> },
): string {
  if (lines === null) throw temporarilyUnavailable("The statement is still being made; try again in a minute.");
  const header = ["unit", "packId", "packName", ...COLUMNS, ...(unitNames.size === 0 ? [] : ["unitName"])];
  const rows = lines.map((line) => {
    const { granted, ...rest } = line;
    const flat: Readonly<Record<string, number | string>> = {
      ...rest,
      ...Object.fromEntries(Object.entries(granted).map(([name, value]) => [`granted.${name}`, value])),
      unitName: unitNames.get(line.unit) ?? "",
    };
    return header.map((column) => flat[column] ?? "");
  });
  return csvText(header, rows, { isRaw });
}
