import * as z from "zod";
import { anyNumber, freeText, identifier, jsonObject, queryFlag, queryInteger, timestamp } from "../http/fields.ts";
import { isFiniteJson } from "../lib/canonical-json.ts";
import { roundNumbers } from "../lib/exact-json.ts";
import { isNestedDeeperThan } from "../lib/json.ts";
import { type Quantities, toSteps, UNITS, type Unit } from "./amount.ts";

export const userId = identifier().describe("The end-user, by your own id.");
export const balanceId = identifier().describe("Identifier of a balance, prefix `crb_`.");
export const unit = z.enum(UNITS);

export const matchRule = z
  .strictObject({ event: identifier().optional(), model: identifier().optional() })
  .refine((rule) => rule.event !== undefined || rule.model !== undefined, "must name an event, a model or both")
  .meta({ id: "MatchRule", minProperties: 1 });

function amountOf(of: Unit) {
  return anyNumber
    .transform((amount, context) => {
      const steps = amount >= 0 ? toSteps(of, amount) : null;
      if (steps !== null) return steps;
      context.addIssue({
        code: "custom",
        message: "must not be negative, nor have more decimals or be larger than its unit holds",
      });
      return z.NEVER;
    })
    .meta({ type: "number", minimum: 0 });
}

const COUNT_STEPS_DEFAULT = 1_000;

/** Amounts by unit, read as steps; `count` is 1 when absent, so it is always there (U1). */
export const quantities = z
  .strictObject({
    count: amountOf("count").optional(),
    tokens: amountOf("tokens").optional(),
    seconds: amountOf("seconds").optional(),
    cents: amountOf("cents").optional(),
  })
  .transform((given): Quantities & { readonly count: number } => {
    const read: { [U in Unit]?: number } & { count: number } = { count: COUNT_STEPS_DEFAULT };
    for (const each of UNITS) {
      const steps = given[each];
      if (steps !== undefined) read[each] = steps;
    }
    return read;
  });

const PROPERTIES_LEVELS_MAX = 100;
/** In UTF-8 bytes of JSON: a row of D1 holds 2 MB. */
const PROPERTIES_BYTES_MAX = 1024 * 1024;

/** Whatever the caller wants kept beside an event. */
export const properties = jsonObject
  .superRefine((value, context) => {
    const refuse = (message: string) => context.addIssue({ code: "custom", message });
    if (isNestedDeeperThan(value, PROPERTIES_LEVELS_MAX)) {
      return refuse(`must nest at most ${PROPERTIES_LEVELS_MAX} levels`);
    }
    roundNumbers(value);
    if (!isFiniteJson(value)) {
      refuse("must hold numbers within the range of a double");
    } else if (new TextEncoder().encode(JSON.stringify(value)).length > PROPERTIES_BYTES_MAX) {
      refuse(`must be at most ${PROPERTIES_BYTES_MAX} bytes of JSON`);
    }
  })
  .meta({ type: "object" });

/** What a usage event says besides its id (U1). */
export const usageFields = {
  userId,
  event: identifier().describe("What was used, such as `chat.completed`."),
  model: identifier().optional().describe("Which model served it, for rules that name one."),
  quantities: quantities.prefault({}).describe("What was used of each unit. `count` is 1 unless it is given."),
  occurredAt: timestamp.optional().describe("When it was used. Default: when it arrives."),
  properties: properties.optional().describe("Kept with the event, and shown in the person's export."),
  onShortage: z
    .enum(["reject", "partial"])
    .default("reject")
    .describe("Short of credits: refuse, or debit what there is and say what is uncovered."),
};

export const planInput = z.strictObject(usageFields);
export type PlanInput = z.infer<typeof planInput>;

export const grantInput = z.strictObject({
  userId,
  packId: identifier().describe("The pack's id (`cpk_…`), or its name in any case."),
  quantity: anyNumber
    .nullish()
    .describe("Legacy packs only: how much, in the pack's unit. Disregarded for packs with items."),
  externalRef: identifier(500).optional().describe("Idempotency key, such as a payment's id."),
  expiresAt: timestamp.nullish().describe("Omitted: the pack's default. Null: never."),
  source: z.enum(["purchase", "grant", "refund", "manual"]).default("purchase"),
  notes: freeText().optional(),
});
export type GrantInput = z.infer<typeof grantInput>;

export const revokeInput = z.strictObject({
  balanceId,
  reason: freeText().optional().describe("Kept as the ledger row's `note`."),
});
export type RevokeInput = z.infer<typeof revokeInput>;

export const listInput = z.object({
  userId,
  event: identifier().optional().describe("A concrete event name, or a glob."),
  includeExpired: queryFlag.default(false),
});
export type ListInput = z.infer<typeof listInput>;

export const historyInput = z.object({
  userId,
  balanceId: balanceId.optional(),
  limit: queryInteger(1, 500).default(50),
  cursor: z.string().min(1, "must not be empty").optional(),
});
export type HistoryInput = z.infer<typeof historyInput>;

export const ledgerReason = z.enum([
  "event_committed",
  "reservation_held",
  "reservation_released",
  "reservation_expired",
  "grant",
  "admin_adjust",
]);

export const adjustInput = z.strictObject({
  delta: anyNumber
    .refine((delta) => delta !== 0, "must not be 0")
    .describe("In the balance's unit; negative takes away. Not 0."),
  note: freeText()
    .refine((text) => text !== "", "must not be empty")
    .describe("Why: kept on the ledger row."),
});
