import * as z from "zod";
import { identifier } from "../http/fields.ts";
import { rejectionOfIssues } from "../http/issue-text.ts";
import { type HintFacts, misnamed, NO_FACTS } from "./reasons.ts";

// The fields of Stripe's objects that Purser uses. Other fields are ignored, because Stripe may add fields at any time.

export const nullableText = z.lazy(() => z.string().nullish());
export const whole = z.lazy(() => z.int());
export const metadata = z.lazy(() =>
  z.looseObject({ user: nullableText, pack: nullableText, quantity: nullableText }).nullish(),
);

export const session = z.lazy(() =>
  z.object({
    id: z.string(),
    mode: z.string(),
    payment_status: z.string(),
    payment_intent: nullableText,
    invoice: nullableText,
    customer: nullableText,
    client_reference_id: nullableText,
    metadata,
    amount_subtotal: whole.nullish(),
    amount_total: whole.nullish(),
    total_details: z.object({ amount_discount: whole.nullish() }).nullish(),
    currency: nullableText,
  }),
);

export const intent = z.lazy(() =>
  z.object({
    id: z.string(),
    amount_received: whole,
    currency: z.string(),
    metadata,
    // Only in API versions before 2025-03-31.
    invoice: nullableText,
  }),
);

export const invoicePayment = z.lazy(() =>
  z.object({
    id: z.string(),
    invoice: z.string(),
    amount_paid: whole.nullish(),
    currency: z.string(),
    payment: z.object({ payment_intent: nullableText, charge: nullableText }),
  }),
);

export const charge = z.lazy(() =>
  z.object({
    id: z.string(),
    payment_intent: nullableText,
    amount_captured: whole,
    amount_refunded: whole,
    currency: z.string(),
  }),
);

export const refund = z.lazy(() =>
  z.object({ id: z.string(), charge: nullableText, payment_intent: nullableText, amount: whole, status: nullableText }),
);

export const dispute = z.lazy(() =>
  z.object({
    id: z.string(),
    charge: z.string(),
    payment_intent: nullableText,
    amount: whole,
    currency: z.string(),
    status: nullableText,
    balance_transactions: z.array(z.object({ amount: whole, currency: z.string() })).nullish(),
  }),
);

/** Returns the used fields of an event's object. Throws `invalid_request` for an object that Stripe would not send. */
export function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const result = schema.safeParse(value);
  if (!result.success) throw rejectionOfIssues(result.error.issues, "data.object");
  return result.data;
}

type Texts = readonly (string | null | undefined)[];

const USER = z.lazy(() => identifier());
/** Returns the first of these texts that is not empty, if it is a valid user id; otherwise null. */
export function userIn(...texts: Texts): string | null {
  const found = texts.find((value) => value !== null && value !== undefined && value !== "");
  return found !== undefined && USER.safeParse(found).success ? (found ?? null) : null;
}

export const namesOf = (...names: Texts): string[] => [...new Set(names.filter((name) => typeof name === "string"))];

/** The object, the pack and the user that an event names, unchanged (S5). */
export interface GrantRequest {
  readonly objectId: string | null;
  readonly pack: string | null;
  readonly user: string | null;
  readonly hint: HintFacts;
}

/** Returns the pack and the user that an event names, and the data for its hint. */
export function readRequestedGrant(
  kind: HintFacts["kind"],
  metadata: { readonly pack?: unknown; readonly quantity?: unknown } | null | undefined,
  named: string | null,
  goods: number | null = null,
): Partial<GrantRequest> {
  const pack = typeof metadata?.pack === "string" && metadata.pack !== "" ? metadata.pack : null;
  const user = userIn(named);
  const quantity = metadata?.quantity == null ? ("none" as const) : ("given" as const);
  const state = named === null ? ("none" as const) : user === null ? ("invalid" as const) : ("named" as const);
  const hint = {
    ...NO_FACTS,
    kind,
    misnamed: misnamed(metadata),
    user: state,
    hasPack: pack !== null,
    quantity,
    goods,
  };
  return { pack, user, hint };
}
