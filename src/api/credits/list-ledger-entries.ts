import * as z from "zod";
import { listEntries } from "../../books/credits/history.ts";
import { cursor, pageLimit, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { EXAMPLE } from "../common.ts";
import { operation } from "../operation.ts";
import { balanceIdInput, ledgerEntry } from "./credit-shapes.ts";

const historyOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      entries: z.array(ledgerEntry).meta(words("The entries of the page.")),
      nextCursor,
    })
    .meta({ id: "LedgerPage" }),
);

export const historyInput = lazy(() =>
  z.object({
    userId,
    balanceId: balanceIdInput.optional().meta(words("Only the entries of this balance.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
    limit: pageLimit("entries"),
    cursor,
  }),
);

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
  errors: ["credit_balance_not_found"],
  ...(WITH_REFERENCE && {
    output: () => historyOutput,
    summary: "List a user's ledger entries",
    description: "Returns every change of the user's balances, newest first. `balanceId` limits it to one balance.",
    returns: "A page of the ledger.",
    example: () => ({ output: { entries: [exampleLedgerEntry], nextCursor: null } }),
  }),
  handler: (ctx, { query }) => listEntries(ctx, query),
});
