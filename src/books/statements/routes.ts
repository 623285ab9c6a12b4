import { requireAdmin } from "../../auth/require-admin.ts";
import { readBody } from "../../http/body.ts";
import { createRoutes } from "../../http/factory.ts";
import { validate } from "../../http/validate.ts";
import { createStatementInput, listStatementsInput, readStatementInput } from "./schemas.ts";
import { createStatement, listStatements, readStatement, statementCsv } from "./statements.ts";

const CSV = ".csv";

/** Administration routes of statements. */
export const statementRoutes = createRoutes()
  .post("/apps/:appId/statements", requireAdmin, readBody, validate("json", createStatementInput), async (c) =>
    c.json(await createStatement(c.var.admin, c.req.param("appId"), c.req.valid("json"))),
  )
  .get("/apps/:appId/statements", requireAdmin, validate("query", listStatementsInput), async (c) =>
    c.json(await listStatements(c.var.admin, c.req.param("appId"), c.req.valid("query").mode)),
  )
  .get("/apps/:appId/statements/:statementId", requireAdmin, validate("query", readStatementInput), async (c) => {
    const { appId, statementId } = c.req.param();
    if (!statementId.endsWith(CSV)) return c.json(await readStatement(c.var.admin, appId, statementId));
    const text = await statementCsv(c.var.admin, appId, statementId.slice(0, -CSV.length), {
      isRaw: c.req.valid("query").raw,
    });
    return c.body(text, 200, {
      "content-type": "text/csv; charset=utf-8",
      "content-disposition": 'attachment; filename="statement.csv"',
    });
  });
