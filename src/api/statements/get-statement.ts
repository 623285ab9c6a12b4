import * as z from "zod";
import { namesOfMany, readUnitNames } from "../../books/prices/unit-names.ts";
import { readStatement, statementCsv } from "../../books/statements/monthly-statements.ts";
import { queryFlag } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import type { AdminCtx } from "../../runtime.ts";
import { administrationOfRow } from "../access.ts";
import { appId, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { statement as exampleStatement, statementOutput } from "./statement-shapes.ts";

const { packId } = EXAMPLE;

const CSV = ".csv";

/** Loads the statement of the path, by which a key's rights are judged. */
const loadStatement = (
  admin: AdminCtx,
  { appId, statementId }: { readonly appId: string; readonly statementId: string },
) => readStatement(admin, appId, statementId.endsWith(CSV) ? statementId.slice(0, -CSV.length) : statementId);

const statementParams = lazy(() =>
  z.object({
    appId,
    statementId: z
      .string()
      .meta(
        words(
          "The id of the statement, `stm_…`. With `.csv` appended, the response is CSV with the same columns.",
          "stm_4vKq9bT2xN7cRw1sHdE8Ja",
        ),
      ),
  }),
);

const exampleStatementLine = {
  unit: "tokens",
  packId,
  packName: "Starter",
  opening: 12_000,
  granted: { purchase: 0, grant: 500, refund: 0, manual: 0, payment: 40_000, recurring: 0 },
  ...{ spent: 31_250.5, refunded: 0, taken: 1_000, restored: 0, revoked: 0, adjusted: 50, erased: 0, expired: 299.5 },
  ...{ closing: 20_000, held: 600 },
};

export default operation({
  id: "getStatement",
  method: "get",
  path: "/api/v1/admin/apps/{appId}/statements/{statementId}",
  tag: "Administration",
  access: administrationOfRow("read", loadStatement),
  params: statementParams,
  query: lazy(() =>
    z.object({
      raw: queryFlag
        .default(false)
        .meta(
          words(
            "For CSV: leaves out the apostrophe that stops spreadsheets from reading a text that begins like a formula as one.",
            false,
          ),
        ),
    }),
  ),
  ...(WITH_REFERENCE && {
    output: () => statementOutput,
    alternatives: { "text/csv": { schema: z.string(), example: "unit,packId,packName,opening,…" } },
    summary: "Get a statement",
    description:
      "Returns a statement, with its lines once it is ready. `{statementId}.csv` returns the same as CSV; a last " +
      "column has the names of the units, if they have names.",
    returns: "The statement.",
    example: () => ({ output: { ...exampleStatement, lines: [exampleStatementLine] } }),
  }),
  handler: async ({ admin, row: statement }, { params, query }, { respond }) => {
    if (!params.statementId.endsWith(CSV)) return statement;
    const unitNames = namesOfMany(await readUnitNames(admin, params.appId, statement.mode));
    return respond(statementCsv(statement, { isRaw: query.raw, unitNames }), {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": 'attachment; filename="statement.csv"',
    });
  },
});
