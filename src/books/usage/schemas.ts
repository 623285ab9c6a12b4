import * as z from "zod";
import { invalid } from "../../errors.ts";
import { identifier, jsonObject, mode, prefixedIdentifier, timestamp, userId } from "../../http/fields.ts";
import { isFiniteJson, isNestedDeeperThan, roundNumbers } from "../../lib/json.ts";
import { DAY_MS } from "../../lib/time.ts";
import { quantities } from "../amounts/schemas.ts";

const EARLIEST_MS = Date.UTC(2000, 0, 1);
const USAGE_AHEAD_MS_MAX = 24 * 3_600_000;

/** When usage occurred (L5). */
export const occurredAt = z.lazy(() =>
  timestamp
    .refine((atMs) => atMs >= EARLIEST_MS, "must not be before 2000-01-01T00:00:00Z")
    .meta({ format: "date-time" }),
);

/** Throws `invalid_request` for usage that is more than a day ahead (L5). `param` is the name of the request's time. */
export function assertNotAhead(atMs: number | undefined, nowMs: number, param = "occurredAt"): void {
  if (atMs === undefined || atMs <= nowMs + USAGE_AHEAD_MS_MAX) return;
  throw invalid(param, "must be at most a day ahead of this service's clock");
}

const PROPERTIES_LEVELS_MAX = 100;
/** In UTF-8 bytes of JSON. A row of D1 holds at most 2 MB. */
const USAGE_PROPERTIES_BYTES_MAX = 1024 * 1024;

/** Any properties that the caller stores with an event. */
const usageProperties = z.lazy(() =>
  jsonObject
    .superRefine((value, context) => {
      const refuse = (message: string) => context.addIssue({ code: "custom", message });
      if (isNestedDeeperThan(value, PROPERTIES_LEVELS_MAX)) {
        return refuse(`must nest at most ${PROPERTIES_LEVELS_MAX} levels`);
      }
      roundNumbers(value);
      if (!isFiniteJson(value)) {
        refuse("must have only numbers within the range of a double");
      } else if (new TextEncoder().encode(JSON.stringify(value)).length > USAGE_PROPERTIES_BYTES_MAX) {
        refuse(`must be at most ${USAGE_PROPERTIES_BYTES_MAX} bytes of JSON`);
      }
    })
    .meta({ type: "object", additionalProperties: true }),
);

export const TIME_OF_USAGE = "The time of the usage, at most a day ahead. Default: now.";

const onShortageInput = z.lazy(() => z.enum(["reject", "partial"]).meta({ id: "OnShortage" }));

/** The fields of a usage event besides its id (U1). */
export const usageFields = () => ({
  userId,
  event: identifier().describe("The event's name, such as `chat.completed`."),
  model: identifier()
    .nullish()
    .transform((given) => given ?? undefined)
    .describe("The model that was used, for rules with a model."),
  quantities: quantities.prefault({}).describe("The usage in each unit. `count` is 1 unless it is given."),
  occurredAt: occurredAt.optional().describe(TIME_OF_USAGE),
  properties: usageProperties
    .nullish()
    .transform((given) => given ?? undefined)
    .describe("Stored with the event and contained in the person's export."),
  onShortage: onShortageInput
    .default("reject")
    .describe("If credits are insufficient: refuse, or debit what is available and report the rest."),
});

export const planInput = z.lazy(() => z.strictObject(usageFields()).meta({ id: "PreviewDebit" }));
export type PlanInput = z.infer<typeof planInput>;

/** Charges of reservations use their ids as eventIds (U15), so no caller's event may take one. */
export const isNoReservationId = [
  (id: string) => !id.startsWith("res_"),
  "must not begin with `res_`: charges of reservations have these ids",
] as const;

const eventId = () =>
  identifier()
    .refine(...isNoReservationId)
    .describe("Your own id of the event: its idempotency key. It does not expire. It must not begin with `res_`.");

export const eventInput = z.lazy(() =>
  z.strictObject({ eventId: eventId(), ...usageFields() }).meta({ id: "UsageEvent" }),
);
export type EventInput = z.infer<typeof eventInput>;

export const reservationStatus = z.lazy(() =>
  z.enum(["open", "committed", "released", "expired"]).meta({
    id: "ReservationStatus",
  }),
);
export type ReservationStatus = z.infer<typeof reservationStatus>;

const EXPIRES_IN_SECONDS_DEFAULT = 300;
/** The longest that credits are held, from a reservation's creation on. */
export const EXPIRES_IN_SECONDS_MAX = 86_400;

const SECONDS_RANGE = `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`;
export const expiresInSeconds = z.lazy(() => z.int().min(1, SECONDS_RANGE).max(EXPIRES_IN_SECONDS_MAX, SECONDS_RANGE));

export const onExpiry = z.lazy(() => z.enum(["return", "charge"]).meta({ id: "OnExpiry" }));

export const reserveInput = z.lazy(() => {
  const { event, model } = usageFields();
  return z
    .strictObject({
      reservationId: prefixedIdentifier("res_").optional().describe("Your own id makes the call idempotent."),
      userId,
      event,
      model,
      quantities,
      expiresInSeconds: expiresInSeconds.default(EXPIRES_IN_SECONDS_DEFAULT).describe("How long the credits are held."),
      onExpiry: onExpiry
        .default("return")
        .describe("When it expires: return the holds, or charge the reserved quantities as an event with its id."),
    })
    .meta({ id: "CreateReservation" });
});
export type ReserveInput = z.infer<typeof reserveInput>;

export const reservationParams = z.lazy(() =>
  z.object({
    reservationId: z.string().describe("The id of the reservation, `res_…`."),
  }),
);

export const commitInput = z.lazy(() => {
  const { model, occurredAt, properties, onShortage } = usageFields();
  return z
    .strictObject({
      eventId: eventId(),
      model: model.describe(
        "The model that was used, if it is not the reserved one. The usage is matched and counted by it.",
      ),
      quantities,
      occurredAt,
      properties,
      onShortage,
    })
    .meta({ id: "CommitReservation" });
});
export type CommitInput = z.infer<typeof commitInput>;

export const totalsGroup = z.lazy(() => z.enum(["event", "model", "hour", "day", "month"]));
export type TotalsGroup = z.infer<typeof totalsGroup>;
export const isTime = (group: TotalsGroup): boolean => group !== "event" && group !== "model";

const dayBegin = z.lazy(() =>
  timestamp
    .refine((atMs) => atMs % DAY_MS === 0, "must begin a day in UTC, such as `2026-01-31T00:00:00Z`")
    .meta({ format: "date-time" }),
);

export const environmentUsageInput = z.lazy(() =>
  z.object({
    mode: mode.describe("The mode whose usage it is."),
    from: dayBegin.describe("Usage of this day or later. The start of a day in UTC."),
    to: dayBegin.describe("Usage before this day. The start of a day in UTC."),
    groupBy: z.enum(["day", "event", "model", "user"]).describe("The groups of the totals."),
  }),
);
export type EnvironmentUsageInput = z.infer<typeof environmentUsageInput>;
