import * as z from "zod/mini";
import { about, described } from "#described";
import { quantities } from "../amounts/schemas.ts";
import { cursor, identifier, jsonObject, pageLimit, readAs, timestamp } from "../http/fields.ts";
import { userId } from "../ledger/schemas.ts";
import { isFiniteJson } from "../lib/canonical-json.ts";
import { roundNumbers } from "../lib/exact-json.ts";
import { isNestedDeeperThan } from "../lib/json.ts";
import { occurredAt } from "./occurred-at.ts";

const PROPERTIES_LEVELS_MAX = 100;
/** In UTF-8 bytes of JSON. A row of D1 holds at most 2 MB. */
const PROPERTIES_BYTES_MAX = 1024 * 1024;

/** Any properties that the caller stores with an event. */
const anyProperties = described(
  jsonObject.check(
    z.superRefine((value, context) => {
      const refuse = (message: string) => context.addIssue({ code: "custom", message });
      if (isNestedDeeperThan(value, PROPERTIES_LEVELS_MAX)) {
        return refuse(`must nest at most ${PROPERTIES_LEVELS_MAX} levels`);
      }
      roundNumbers(value);
      if (!isFiniteJson(value)) {
        refuse("must have only numbers within the range of a double");
      } else if (new TextEncoder().encode(JSON.stringify(value)).length > PROPERTIES_BYTES_MAX) {
        refuse(`must be at most ${PROPERTIES_BYTES_MAX} bytes of JSON`);
      }
    }),
  ),
  about({ type: "object", additionalProperties: true }),
);

const TIME_OF_USAGE = "The time of the usage, at most a day ahead. Default: now.";

/** The fields of a usage event besides its id (U1). */
const usageFields = {
  userId,
  event: described(identifier(), about("The event's name, such as `chat.completed`.")),
  model: described(z.optional(identifier()), about("The model that was used, for rules with a model.")),
  quantities: described(z.prefault(quantities, {}), about("The usage in each unit. `count` is 1 unless it is given.")),
  occurredAt: described(z.optional(occurredAt), about(TIME_OF_USAGE)),
  properties: described(
    z.optional(anyProperties),
    about("Stored with the event and contained in the person's export."),
  ),
  onShortage: described(
    z._default(described(z.enum(["reject", "partial"]), about({ id: "OnShortage" })), "reject"),
    about("If credits are insufficient: refuse, or debit what is available and report the rest."),
  ),
};

export const planInput = described(z.strictObject(usageFields), about({ id: "PreviewDebit" }));
export type PlanInput = z.infer<typeof planInput>;

const { event, model, properties, onShortage } = usageFields;

const eventId = described(identifier(), about("Your own id of the event: its idempotency key. It does not expire."));

export const eventInput = described(z.strictObject({ eventId, ...usageFields }), about({ id: "UsageEvent" }));
export type EventInput = z.infer<typeof eventInput>;

export const eventsMax = 100;

/** The `data` of a CloudEvent. */
const cloudEventData = described(
  z.strictObject({
    model: z.nullish(model),
    quantities: usageFields.quantities,
    properties: z.nullish(properties),
  }),
  about({ id: "CloudEventData" }),
);

/** A CloudEvent 1.0 as JSON, read as a usage event (U1). Extension attributes are ignored. */
export const cloudEvent = described(
  readAs(
    z
      .looseObject({
        specversion: z.literal("1.0"),
        id: eventId,
        source: z.string().check(z.minLength(1, "must not be empty")),
        type: event,
        subject: userId,
        time: described(z.nullish(occurredAt), about(TIME_OF_USAGE)),
        data: z.nullish(cloudEventData),
      })
      .check(
        z.refine((given) => given.data_base64 === undefined, {
          path: ["data_base64"],
          message: "must not be given: the data of an event is JSON",
        }),
      ),
    ({ id, type, subject, time, data }): EventInput => ({
      eventId: id,
      userId: subject,
      event: type,
      model: data?.model ?? undefined,
      quantities: data?.quantities ?? usageFields.quantities.parse({}),
      occurredAt: time ?? undefined,
      properties: data?.properties ?? undefined,
      onShortage: "reject",
    }),
  ),
  about({ id: "CloudEvent" }),
);

export const reservationStatus = described(
  z.enum(["open", "committed", "released", "expired"]),
  about({
    id: "ReservationStatus",
  }),
);
export type ReservationStatus = z.infer<typeof reservationStatus>;

const reservationIdPattern = /^res_[A-Za-z0-9_-]{1,60}$/;

const EXPIRES_IN_SECONDS_DEFAULT = 300;
/** The longest that credits are held, from a reservation's creation on. */
export const EXPIRES_IN_SECONDS_MAX = 86_400;

const SECONDS_RANGE = `must be from 1 to ${EXPIRES_IN_SECONDS_MAX}`;
const expiresInSeconds = z.int().check(z.minimum(1, SECONDS_RANGE), z.maximum(EXPIRES_IN_SECONDS_MAX, SECONDS_RANGE));

export const onExpiry = described(z.enum(["return", "charge"]), about({ id: "OnExpiry" }));

export const reserveInput = described(
  z.strictObject({
    reservationId: described(
      z.optional(
        z.string().check(z.regex(reservationIdPattern, "must be `res_` and 1 to 60 letters, digits, `_` or `-`")),
      ),
      about("Your own id makes the call idempotent."),
    ),
    userId,
    event,
    model,
    quantities,
    expiresInSeconds: described(
      z._default(expiresInSeconds, EXPIRES_IN_SECONDS_DEFAULT),
      about("How long the credits are held."),
    ),
    onExpiry: described(
      z._default(onExpiry, "return"),
      about("If nobody settles it in time: return the holds, or charge the reserved quantities as an event of its id."),
    ),
  }),
  about({ id: "CreateReservation" }),
);
export type ReserveInput = z.infer<typeof reserveInput>;

export const reservationParams = z.object({
  reservationId: described(z.string(), about("The id of the reservation, `res_…`.")),
});

export const extendInput = described(
  z.strictObject({
    expiresInSeconds: described(expiresInSeconds, about("How long the credits are held from now on.")),
  }),
  about({ id: "ExtendReservation" }),
);
export type ExtendInput = z.infer<typeof extendInput>;

export const reservationsInput = z.object({
  userId,
  status: described(z.optional(reservationStatus), about("Only reservations of this status.")),
  limit: pageLimit("reservations"),
  cursor,
});
export type ReservationsInput = z.infer<typeof reservationsInput>;

export const commitInput = described(
  z.strictObject({
    eventId,
    quantities,
    occurredAt: usageFields.occurredAt,
    properties,
    onShortage,
  }),
  about({ id: "CommitReservation" }),
);
export type CommitInput = z.infer<typeof commitInput>;

export const totalsInput = z.object({
  userId,
  event: described(z.optional(identifier()), about("An event name or a glob.")),
  from: described(z.optional(timestamp), about("Only events that occurred at this time or later.")),
  to: described(z.optional(timestamp), about("Only events that occurred before this time.")),
});
export type TotalsInput = z.infer<typeof totalsInput>;
