import * as z from "zod";
import { debit, meters, metersOutput, quantities, quantitiesOutput } from "../../books/amounts/amount-fields.ts";
import { type SentUsage, withImplied } from "../../books/amounts/given-quantities.ts";
import { errorDetail } from "../../http/error-body.ts";
import { identifier, jsonObject, memberId, timestamp, userId } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { eventNames, KEY, planNames, usageNames } from "../../http/wrong-names.ts";
import { utf8Length } from "../../lib/encoding.ts";
import { isNestedDeeperThan, roundNumbers } from "../../lib/json.ts";
import { words } from "../../lib/words.ts";
import { EXAMPLE } from "../common.ts";
import { exampleDebit } from "../reservations/reservation-shapes.ts";

const { eventId } = EXAMPLE;

/** An example of the response to a usage event, and of the response to a commit. */
export const exampleDebits = { eventId, debits: [exampleDebit], uncovered: null };

export const eventOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      eventId: z.string().meta(words("The usage event's id.", "chat-2026-01-16-0001")),
      debits: z.array(debit).meta(words("The debits, in spending order.")),
      uncovered: quantitiesOutput
        .nullable()
        .meta(words("The quantities that no balance covered. Null when all are covered.")),
      quantities: quantitiesOutput
        .optional()
        .meta(words("The quantities that the price list gave the meters. Absent if quantities were sent.")),
      meters: metersOutput
        .optional()
        .meta(words("The meters. Absent if quantities were sent.", { input: 1_200, output: 300 })),
      priceVersion: z
        .int()
        .optional()
        .meta(words("The version of the price list that priced the meters. Absent if quantities were sent.", 4)),
    })
    .meta({ id: "UsageEventResult" }),
);

const eventError = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      eventId: z
        .string()
        .nullable()
        .meta(words("Null when the element has no id that can be read.", "chat-2026-01-16-0001")),
      error: errorDetail.meta(words("The error.")),
    })
    .meta({ id: "UsageEventError" }),
);

const eventResult = /* @__PURE__ */ lazy(() =>
  eventOutput
    .unwrap()
    .extend({ isReplayed: z.literal(true).optional().meta(words("Present if the event was recorded before.")) })
    .meta({ id: "UsageEventListResult" }),
);

export const eventListOutput = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({ results: z.array(z.union([eventResult, eventError])).meta(words("One for each event, in order.")) })
    .meta({ id: "UsageEventList" }),
);

export type EventListOutput = z.infer<typeof eventListOutput>;

const EARLIEST_MS = Date.UTC(2000, 0, 1);

/** When usage occurred (L5). */
export const occurredAt = lazy(() =>
  timestamp
    .refine((atMs) => atMs >= EARLIEST_MS, "must not be before 2000-01-01T00:00:00Z")
    .meta({ format: "date-time" }),
);

const PROPERTIES_LEVELS_MAX = 100;

/** In UTF-8 bytes of JSON. A row of D1 holds at most 2 MB. */
const USAGE_PROPERTIES_BYTES_MAX = 1024 * 1024;

/** Any properties that the caller stores with an event. */
const usageProperties = lazy(() =>
  jsonObject
    .superRefine((value, context) => {
      const reject = (message: string) => context.addIssue({ code: "custom", message });
      if (isNestedDeeperThan(value, PROPERTIES_LEVELS_MAX)) {
        return reject(`must nest at most ${PROPERTIES_LEVELS_MAX} levels`);
      }
      if (!roundNumbers(value)) {
        reject("must have only numbers within the range of a double");
      } else if (utf8Length(JSON.stringify(value)) > USAGE_PROPERTIES_BYTES_MAX) {
        reject(`must be at most ${USAGE_PROPERTIES_BYTES_MAX} bytes of JSON`);
      }
    })
    .meta({ type: "object", additionalProperties: true }),
);

export const TIME_OF_USAGE = "The time of the usage, at most a day ahead. Default: now.";

const onShortageInput = lazy(() => z.enum(["reject", "partial"]).meta({ id: "OnShortage" }));

/** The fields of a usage event besides its id (U1). */
export const usageFields = () => ({
  userId,
  memberId,
  event: identifier().meta(words("The event's name, such as `chat.completed`.", "chat.completed")),
  model: identifier()
    .nullish()
    .transform((given) => given ?? undefined)
    .meta(words("The model that was used, for rules with a model.", "large-1")),
  quantities: quantities
    .optional()
    .meta(words("The usage in each unit. `count` is 1 unless it is given. Not together with `meters`.")),
  meters: meters.optional().meta(
    words("The usage by meter, which the price list turns into quantities.", {
      input: 1_200,
      cacheRead: 300,
      output: 450,
    }),
  ),
  occurredAt: occurredAt.optional().meta(words(TIME_OF_USAGE, "2026-01-16T08:30:00.000Z")),
  properties: usageProperties
    .nullish()
    .transform((given) => given ?? undefined)
    .meta(words("Stored with the event and contained in the person's export.", { plan: "pro" })),
  onShortage: onShortageInput
    .default("reject")
    .meta(words("If credits are insufficient: reject, or debit what is available and report the rest.", "reject")),
});

/** Charges of reservations use their ids as eventIds (U15), so no caller's event may take one. */
export const isNoReservationId = [
  (id: string) => !id.startsWith("res_"),
  "must not begin with `res_`: charges of reservations have these ids",
] as const;

export const eventIdInput = () =>
  identifier()
    .refine(...isNoReservationId)
    .meta(words("Your own id of the event: its idempotency key. It does not expire. It must not begin with `res_`."));

/** The check that a usage has not both quantities and meters. */
export const isOneOf: [(sent: SentUsage) => boolean, { path: string[]; message: string }] = [
  ({ quantities, meters }) => quantities === undefined || meters === undefined,
  {
    path: ["meters"],
    message: "must not be sent together with `quantities`: the price list makes them from the meters",
  },
];

export const eventInput = lazy(() =>
  z
    .strictObject({
      eventId: eventIdInput().meta(
        words(
          "Your own id of the event: its idempotency key. It does not expire. It must not begin with `res_`.",
          "chat-2026-01-16-0001",
        ),
      ),
      ...usageFields(),
    })
    .refine(...isOneOf)
    .meta({ wrongNames: { eventId: KEY, ...usageNames, ...eventNames, ...planNames } })
    .transform(withImplied)
    .meta({ id: "UsageEvent" }),
);
