import * as z from "zod";
import { createRecurring } from "../../books/recurring/create.ts";
import {
  anyNumber,
  datedTimestamp,
  identifier,
  prefixedIdentifier,
  timestamp,
  timeZoneName,
  userId,
} from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { warn } from "../../http/warnings.ts";
import { EVERY_NAMES, KEY, PACK, USER_NAMES } from "../../http/wrong-names.ts";
import { iso } from "../../lib/time.ts";
import { toLocalMs } from "../../lib/time-zone.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { everyPeriod, recurring, recurringOutput } from "./recurring-shapes.ts";

const ROLLOVER_MAX = 12;

const rolloverRange = `must be a whole number from 0 to ${ROLLOVER_MAX}, or null`;

export const createRecurringInput = lazy(() =>
  z
    .strictObject({
      recurringId: prefixedIdentifier("rec_")
        .optional()
        .meta(words("Your own id makes the call idempotent.", "rec_free-user_42")),
      userId,
      packId: identifier().meta(words("The pack's id (`cpk_…`), or its name in any case.", "Free")),
      quantity: anyNumber
        .nullish()
        .meta(words("The amount in the pack's unit, for legacy packs. Ignored for packs with items.", 1_000)),
      every: everyPeriod.meta(words("The length of a period, by the calendar of `timeZone`.", "month")),
      startsAt: datedTimestamp
        .optional()
        .meta(
          words(
            "When the first period begins, at most a year from now or ago. Default: now.",
            "2026-01-16T08:30:00.000Z",
          ),
        ),
      endsAt: timestamp
        .optional()
        .meta(words("No period begins at or after this time. Default: no end.", "2027-01-16T00:00:00.000Z")),
      rolloverPeriods: z
        .int(rolloverRange)
        .min(0, rolloverRange)
        .max(ROLLOVER_MAX, rolloverRange)
        .nullable()
        .default(0)
        .meta(words("For how many further periods its credits stay valid. Null: they expire as the pack says.", 0)),
      timeZone: timeZoneName
        .default("UTC")
        .meta(words("The IANA name of the zone whose calendar the periods follow.", "Europe/Berlin")),
    })
    .meta({
      id: "CreateRecurringGrant",
      wrongNames: {
        recurringId: `id subscriptionId ${KEY} externalRef`,
        userId: USER_NAMES,
        packId: PACK,
        quantity: "amount value qty credits units",
        every: EVERY_NAMES,
        startsAt: "start startDate startAt from anchor",
        endsAt: "end endDate endAt to until expiresAt",
        timeZone: "tz zone timezone",
        rolloverPeriods: "rollover rollsOver carryOver",
      },
    }),
);

export default operation({
  id: "createRecurringGrant",
  method: "post",
  path: "/api/v1/credits/recurring",
  tag: "Credits",
  access: secretKey(),
  body: createRecurringInput,
  errors: ["credit_pack_not_found", "invalid_quantity", "idempotency_conflict", "test_quota_exceeded"],
  replayable: true,
  warns: true,
  writesForId: "rejected",
  idempotent: { field: "recurringId", prefix: "rec_" },
  ...(WITH_REFERENCE && {
    output: () => recurringOutput,
    summary: "Grant a pack every period",
    description:
      "Grants the pack to the user once each period, with the pack's current version. Due periods are granted at " +
      "once. Periods are computed from `startsAt` by the calendar of `timeZone`; if a month lacks that day, the " +
      "period begins on its last day. If clocks skip its time, it begins after the gap. The credits of a period have the `externalRef` `recurring:<recurringId>:<n>`, and " +
      "expire at its end, or `rolloverPeriods` periods later. With your own `recurringId` the call is idempotent: a " +
      "repeat returns the recurring grant as it stands now. A " +
      "user may have at most 100 recurring grants that have not ended.",
    returns: "The recurring grant.",
    example: () => ({
      body: { recurringId: "rec_free-user_42", userId: "user_42", packId: "Free", every: "month" },
      output: recurring,
    }),
  }),
  handler: async (ctx, { body: { startsAt, ...body } }) => {
    const outcome = await createRecurring(ctx, { ...body, startsAt: startsAt?.atMs });
    const zone = { timeZone: body.timeZone, utcOffsetMs: 0 };
    const isOtherDay = startsAt !== undefined && !iso(toLocalMs(zone, startsAt.atMs)).startsWith(startsAt.date);
    if (isOtherDay) warn(ctx, "starts_on_another_day");
    return outcome;
  },
});
