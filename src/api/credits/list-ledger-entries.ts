import { listEntries } from "../../books/credits/history.ts";
import { historyOutput } from "../../books/credits/responses.ts";
import { historyInput } from "../../books/credits/schemas.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";

const { balanceId, packId } = EXAMPLE;

const exampleLedgerEntry = {
  id: "led_5cQx2vN8bT0rKf7yLwZ3Hd_9",
  balanceId,
  packId,
  delta: -120,
  unit: "tokens",
  reason: "event_committed",
  cause: "usage",
  eventId: EXAMPLE.eventId,
  reservationId: null,
  occurredAt: "2026-01-16T08:30:00.000Z",
  note: null,
  by: "key_4mLr9sGz1bFq0XnTdH7uYp",
};

export default operation({
  id: "listLedgerEntries",
  method: "get",
  path: "/api/v1/credits/history",
  tag: "Credits",
  access: secretKey({ rejects: "requires_secret_key" }),
  query: historyInput,
  output: () => historyOutput,
  errors: ["credit_balance_not_found"],
  summary: "List a user's ledger entries",
  description: "Returns every change of the user's balances, newest first. `balanceId` limits it to one balance.",
  returns: "A page of the ledger.",
  example: () => ({ output: { entries: [exampleLedgerEntry], nextCursor: null } }),
  handler: (ctx, { query }) => listEntries(ctx, query),
});
