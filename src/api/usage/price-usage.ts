import * as z from "zod";
import { meters, quantitiesOutput, unit } from "../../books/amounts/amount-fields.ts";
import { previewPrice } from "../../books/usage/preview-price.ts";
import { lazy } from "../../http/lazy.ts";
import { words } from "../../lib/words.ts";
import { secretKey } from "../access.ts";
import { operation } from "../operation.ts";
import { usageFields } from "./usage-shapes.ts";

const priceOutput = lazy(() =>
  z
    .strictObject({
      quantities: quantitiesOutput.meta(words("The quantities that an event with these meters would have.")),
      priceVersion: z.int().nullable().meta(words("The version of the price list that prices it.", 4)),
      rules: z
        .array(
          z
            .strictObject({
              unit,
              rule: z.int().meta(words("The rule's place in the list, from 0.", 0)),
            })
            .meta({ id: "AppliedPriceRule" }),
        )
        .meta(words("The rule that gives the quantity of each unit.")),
    })
    .meta({ id: "UsagePrice" }),
);

const meterExample = { input: 1_200, cacheRead: 300, output: 450 };

export default operation({
  id: "previewPrice",
  method: "post",
  path: "/api/v1/usage/price",
  tag: "Usage",
  access: secretKey({ reads: true }),
  body: lazy(() => {
    const { event, model, occurredAt } = usageFields();
    return z
      .strictObject({
        event,
        model,
        meters: meters.meta(words("The usage by meter.", meterExample)),
        occurredAt,
      })
      .meta({ id: "PreviewPrice" });
  }),
  errors: ["price_not_found"],
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () => priceOutput,
    summary: "Preview a price",
    description:
      "Returns the quantities that the price list gives the meters of an event, and the rules that give them. It needs no user, and " +
      "changes nothing.",
    returns: "The quantities.",
    example: () => ({
      body: { event: "chat.completed", model: "gpt-5-2026-01-15", meters: meterExample },
      output: { quantities: { cents: 0.60375 }, priceVersion: 4, rules: [{ unit: "cents", rule: 0 }] },
    }),
  }),
  handler: (ctx, { body }) => previewPrice(ctx, body),
});
