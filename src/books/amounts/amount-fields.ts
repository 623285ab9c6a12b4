import * as z from "zod";
import { anyDecimal, identifier, reject } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { amountMaxRule, readMeter, UNITS, type Unit, usedMinor } from "./amount.ts";
import { readGivenMeters, readGivenQuantities } from "./given-quantities.ts";
import { meterText } from "./meters.ts";

/** The quantities in a response: the units that the event has. */
export const quantitiesOutput = lazy(() =>
  z
    .strictObject({
      count: z.number().optional().meta(words("A count.", 1)),
      tokens: z.number().optional().meta(words("Tokens.", 120)),
      seconds: z.number().optional().meta(words("Seconds.", 2.5)),
      cents: z.number().optional().meta(words("Cents.", 0.25)),
    })
    .meta({ id: "Quantities" }),
);

/** A sum of amounts, which may have more digits than a double. The TypeScript client has a type of its own for it. */
export const sumOutput = /* @__PURE__ */ lazy(() => z.number().meta({ "x-sum": true }));

/** Sums of quantities: the units that have some. */
export const summedQuantities = /* @__PURE__ */ lazy(() =>
  z
    .strictObject({
      count: sumOutput.optional().meta(words("A count.", 310)),
      tokens: sumOutput.optional().meta(words("Tokens.", 280)),
      seconds: sumOutput.optional().meta(words("Seconds.", 2.5)),
      cents: sumOutput.optional().meta(words("Cents.", 5)),
    })
    .meta({ id: "SummedQuantities" }),
);

/** The amount that one balance pays. */
export const debit = lazy(() =>
  z
    .strictObject({
      balanceId: z.string().meta(words("The balance's id.", "crb_5cQx2vN8bT0rKf7yLwZ3Hd")),
      packId: z.string().meta(words("The pack's id.", "cpk_1mVt9sD4gE6uXa8oPzJ2Rq")),
      unit,
      amount: z.number().meta(words("The amount, in the unit.", 120)),
      remaining: z.number().meta(words("The balance after the debit.", 280)),
    })
    .meta({ id: "Debit" }),
);

export const unit = lazy(() => z.enum(UNITS).meta({ id: "Unit", ...words("The unit.", "tokens") }));

const rule = () =>
  z.strictObject(
    {
      event: identifier().optional().meta(words("An event name. `*` matches any characters.", "chat.completed")),
      model: identifier().optional().meta(words("A model name. `*` matches any characters.", "large-1")),
    },
    {
      error: ({ input }) =>
        typeof input === "string" ? 'must be an object, such as `{ "event": "chat.*" }`' : undefined,
    },
  );

export const matchRule = lazy(() =>
  rule()
    .refine(({ event, model }) => event !== undefined || model !== undefined, "must have an event, a model or both")
    .meta({ id: "MatchRule", wrongNames: { event: "events name type eventName", model: "models" }, minProperties: 1 }),
);

/** A used quantity in minor units, and whether it had to be rounded (C1). */
const quantitySchema = (of: Unit) =>
  anyDecimal
    .transform(
      (decimal, context) =>
        usedMinor(of, decimal) ?? reject(context, decimal.startsWith("-") ? "must not be negative" : amountMaxRule(of)),
    )
    .meta({ type: "number", minimum: 0 })
    .optional();

/** The form of a meter's name (PR3). */
export const meterName = () =>
  z
    .string()
    .regex(
      /^[a-z][A-Za-z0-9_]{0,39}$/,
      "must begin with a small letter, and have up to 40 letters, digits and underscores",
    );

const METERS_MAX = 20;

/** The meters of a usage, each as its shortest decimal (PR3). */
export const meters = lazy(() =>
  z
    .record(
      meterName(),
      anyDecimal
        .transform((decimal, context) => {
          const meter = readMeter(decimal);
          if (meter !== null) return { text: meterText(meter.whole), isRounded: meter.isRounded };
          return reject(context, decimal.startsWith("-") ? "must not be negative" : "must be at most 2^53");
        })
        .meta({ type: "number", minimum: 0 }),
    )
    .refine((sent) => Object.keys(sent).length <= METERS_MAX, `must have at most ${METERS_MAX} names`)
    .meta({ id: "Meters" })
    .transform(readGivenMeters),
);

/** Meters in a response. */
export const metersOutput = lazy(() => z.record(z.string(), sumOutput).meta({ id: "SentMeters" }));

/** Sums of meters by name. */
export const summedMeters = /* @__PURE__ */ lazy(() => z.record(z.string(), sumOutput).meta({ id: "SummedMeters" }));

/** The fields of a response that say how its quantities came about. */
export const metersAndVersion = () => ({
  meters: metersOutput.nullable().meta(words("The meters that were sent. Null if quantities were sent.", null)),
  priceVersion: z
    .int()
    .nullable()
    .meta(words("The version of the price list that priced the meters. Null if quantities were sent.", null)),
});

/** Amounts by unit, read as minor units. `count` is 1 when it is absent, so it is always present (U1). */
export const quantities = lazy(() =>
  z
    .strictObject({
      count: quantitySchema("count").meta(words("A count.", 1)),
      tokens: quantitySchema("tokens").meta(words("Tokens.", 120)),
      seconds: quantitySchema("seconds").meta(words("Seconds.", 2.5)),
      cents: quantitySchema("cents").meta(words("Cents.", 0.25)),
    })
    .meta({
      id: "UsageQuantities",
      wrongNames: {
        "!name the unit of the packs that pay: `count`, `tokens`, `seconds` or `cents`":
          "credits credit units unit points amount",
        "!write all tokens together as `tokens`":
          "inputTokens outputTokens promptTokens completionTokens totalTokens cachedTokens reasoningTokens",
        "!write `seconds`, which may have three decimals":
          "minutes minute hours milliseconds ms duration durationMs durationSeconds",
        "!write `cents`, which may have six decimals": "usd eur dollars euros price cost costUsd microdollars",
        "!write them as `count`": "requests calls uses images messages pages characters bytes items quantity value",
        tokens: "token",
        seconds: "second sec secs",
        cents: "cent",
        "/event": "event",
        "/model": "model",
        "/properties": "properties",
      },
    })
    .transform(readGivenQuantities)
    .meta(words("The usage in each unit.")),
);

/** The amount that a reservation holds of one balance. */
export const hold = /* @__PURE__ */ lazy(() =>
  debit
    .unwrap()
    .extend({ remaining: z.number().meta(words("The balance after the hold.", 280)) })
    .meta({ id: "Hold" }),
);

export const heldAmount = /* @__PURE__ */ lazy(() =>
  hold.unwrap().omit({ remaining: true }).meta({ id: "HeldAmount" }),
);
