import * as z from "zod";
import { statementListOutput, statementOutput } from "../../books/statements/responses.ts";
import { createStatementInput, listStatementsInput } from "../../books/statements/schemas.ts";
import type { Operation } from "../operation.ts";
import { access, appId, createdAt, ofApp, path, tag } from "./administration.ts";

const ofStatement = z.object({
  appId,
  statementId: z
    .string()
    .describe("The id of the statement, `stm_…`. With `.csv` appended, the response is CSV with the same columns."),
});
const summary = {
  statementId: "stm_4vKq9bT2xN7cRw1sHdE8Ja",
  mode: "live",
  month: "2025-12",
  status: "ready",
  madeAt: createdAt,
};
const line = {
  unit: "tokens",
  packId: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
  packName: "Starter",
  opening: 12_000,
  granted: { purchase: 0, grant: 500, refund: 0, manual: 0, payment: 40_000, recurring: 0 },
  ...{ spent: 31_250.5, refunded: 0, taken: 1_000, restored: 0, revoked: 0, adjusted: 50, erased: 0, expired: 299.5 },
  ...{ closing: 20_000, held: 600 },
};

/** The operations on statements, for the administrator. */
export const statementOperations: readonly Operation[] = [
  {
    id: "createStatement",
    method: "post",
    path: path("/apps/{appId}/statements"),
    tag,
    access,
    summary: "Make the statement of a month",
    description:
      "The statement of a month by unit and pack, for accounting. It balances exactly: `opening` + `granted` − `spent` " +
      "− `refunded` − `taken` + `restored` − `revoked` + `adjusted` − `erased` − `expired` = `closing`. The cron makes " +
      "it. A repeated request returns the first statement.",
    params: ofApp,
    body: { schema: createStatementInput, example: { mode: "live", month: "2025-12" } },
    success: {
      description: "The statement, without lines while it is being made.",
      schema: statementOutput,
      example: { ...summary, status: "running", madeAt: null, lines: null },
    },
    errors: [],
  },
  {
    id: "listStatements",
    method: "get",
    path: path("/apps/{appId}/statements"),
    tag,
    access,
    summary: "List statements",
    description: "Of one mode, the newest month first, without lines.",
    params: ofApp,
    query: listStatementsInput,
    success: { description: "The statements.", schema: statementListOutput, example: { statements: [summary] } },
    errors: [],
  },
  {
    id: "getStatement",
    method: "get",
    path: path("/apps/{appId}/statements/{statementId}"),
    tag,
    access,
    summary: "Get a statement",
    description: "With its lines when it is ready. `{statementId}.csv` returns the same as CSV.",
    params: ofStatement,
    success: {
      description: "The statement.",
      schema: statementOutput,
      example: { ...summary, lines: [line] },
      alternatives: { "text/csv": { schema: z.string(), example: "unit,packId,packName,opening,…" } },
    },
    errors: [],
  },
];
