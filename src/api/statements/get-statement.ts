import * as z from "zod";
import { statementOutput } from "../../books/statements/responses.ts";
import { readStatementInput } from "../../books/statements/schemas.ts";
import { readStatement, statementCsv } from "../../books/statements/statements.ts";
import { administration } from "../access.ts";
import { appId, EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { statement } from "./shapes.ts";

const { packId } = EXAMPLE;

const CSV = ".csv";

const statementParams = z.lazy(() =>
  z.object({
    appId,
    statementId: z
      .string()
      .describe("The id of the statement, `stm_…`. With `.csv` appended, the response is CSV with the same columns."),
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
  access: administration("read", "row"),
  params: statementParams,
  query: readStatementInput,
  output: () => statementOutput,
  alternatives: { "text/csv": { schema: z.string(), example: "unit,packId,packName,opening,…" } },
  summary: "Get a statement",
  description: "Returns a statement, with its lines once it is ready. `{statementId}.csv` returns the same as CSV.",
  returns: "The statement.",
  example: () => ({ output: { ...statement, lines: [exampleStatementLine] } }),
  handler: async (admin, { params: { appId, statementId }, query }) => {
    if (!statementId.endsWith(CSV)) return readStatement(admin, appId, statementId);
    const text = await statementCsv(admin, appId, statementId.slice(0, -CSV.length), { isRaw: query.raw });
    return new Response(text, {
      headers: {
        "content-type": "text/csv; charset=utf-8",
        "content-disposition": 'attachment; filename="statement.csv"',
      },
    });
  },
});
