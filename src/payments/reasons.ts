import { PurserError } from "../errors.ts";
import { beginningOf } from "../lib/code-points.ts";

/** Why a payment is unmatched (S3); `carry` also without that (S6). */
const REASONS = [
  "no_user",
  "no_pack",
  "quantity",
  "currency",
  "period_over",
  "proration",
  "lines_missing",
  "person_erased",
  "quota",
  "carry",
  "fault",
] as const;
export type Reason = (typeof REASONS)[number];

/** The reasons that a payment has: also why it grants nothing although nothing is to be done. */
export const STATUS_REASONS = [...REASONS, "covered_by_credit"] as const;
export type StatusReason = (typeof STATUS_REASONS)[number];

/** The reasons why an event did nothing (S5). */
const IGNORED_REASONS = [
  "nothing_new",
  "another_type",
  "connect",
  "livemode",
  "thin_event",
  "shape",
  "unpaid",
  "setup_mode",
  "another_product",
  "price_not_set",
  "trial_over",
  "coupon_over",
  "no_payment",
  "refunds_owed",
] as const;
export type IgnoredReason = (typeof IGNORED_REASONS)[number] | "no_user";

/** The reasons why an event granted nothing: those of unmatched payments and those of ignored events. */
export const LOG_REASONS = [...STATUS_REASONS, ...IGNORED_REASONS] as const;
export type LogReason = (typeof LOG_REASONS)[number];

const REJECTIONS = new Map<string, Reason>([
  ["test_quota_exceeded", "quota"],
  ["person_erased", "person_erased"],
]);

/** Returns why a grant was rejected. Null for errors that do not make a payment unmatched. */
export function findReason(error: unknown): Reason | null {
  if (!(error instanceof PurserError)) return null;
  // The user has the maximum number of balances (L6).
  return error.details?.limit === undefined ? (REJECTIONS.get(error.code) ?? null) : "quota";
}

/** The likely meaning of unknown metadata keys. They are compared without letter case, hyphens and underscores. */
const MISTAKEN_KEYS: Readonly<Record<"user" | "pack" | "quantity", readonly string[]>> = {
  user: [
    ...["userid", "users", "uid", "customerid", "customer", "accountid", "account", "memberid", "member", "username"],
    ...["clientreferenceid", "clientreference", "clientid", "externalid", "externaluserid", "appuserid", "purseruser"],
  ],
  pack: [
    ...["packid", "packname", "packs", "creditpack", "creditpackid", "creditpackname", "packageid", "package"],
    ...["productid", "product", "planid", "plan", "sku", "bundle", "purserpack"],
  ],
  quantity: ["qty", "amount", "credits", "creditamount", "count", "units", "tokens", "quantities"],
};
const KEYS = ["user", "pack", "quantity"] as const;

const plainKey = (key: string): string => key.toLowerCase().replace(/[-_\s]/g, "");

/** Returns a sentence with the right name for each wrong metadata key. The sentences contain no values. */
export function misnamed(metadata: Readonly<Record<string, unknown>> | null | undefined): readonly string[] {
  const keys = Object.keys(metadata ?? {});
  return KEYS.flatMap((name) => {
    if (metadata?.[name] !== undefined && metadata[name] !== "") return [];
    const found = keys.find(
      (key) => key !== name && (plainKey(key) === name || MISTAKEN_KEYS[name].includes(plainKey(key))),
    );
    return found === undefined ? [] : [`\`metadata.${beginningOf(found, 40)}\` is not read: name it \`${name}\`.`];
  });
}

/** The event to choose at Stripe instead of an unsupported one. */
const INSTEAD: Readonly<Record<string, string>> = {
  "checkout.session.expired": "Nothing was paid: the session expired.",
  "checkout.session.async_payment_failed": "Nothing was paid: the payment failed.",
  "payment_intent.payment_failed": "Nothing was paid: the payment failed.",
  "payment_intent.created": "Nothing is paid yet: choose `payment_intent.succeeded`.",
  "payment_intent.processing": "Nothing is paid yet: choose `payment_intent.succeeded`.",
  "payment_intent.requires_action": "Nothing is paid yet: choose `payment_intent.succeeded`.",
  "payment_intent.amount_capturable_updated": "Nothing is captured yet: choose `payment_intent.succeeded`.",
  "charge.succeeded": "Choose `checkout.session.completed`, `invoice.paid` or `payment_intent.succeeded`.",
  "charge.captured": "Choose `checkout.session.completed`, `invoice.paid` or `payment_intent.succeeded`.",
  "invoice.payment_succeeded": "Choose `invoice.paid`, which comes with every paid invoice.",
  "invoice.finalized": "Nothing is paid yet: choose `invoice.paid`.",
  "invoice.created": "Nothing is paid yet: choose `invoice.paid`.",
  "invoice.payment_failed": "Nothing was paid: the payment failed.",
  "invoice.payment_action_required": "Nothing is paid yet: choose `invoice.paid`.",
  "customer.subscription.created": "A subscription's invoices grant: choose `invoice.paid`.",
  "customer.subscription.updated": "A subscription's invoices grant: choose `invoice.paid`.",
  "charge.refund.updated": "Choose `refund.updated` and `refund.failed`.",
  "refund.created": "Choose `charge.refunded`, which has the whole refunded amount of a charge.",
  "charge.dispute.created": "Choose `charge.dispute.funds_withdrawn`, which has the withdrawn amount.",
  "charge.dispute.closed": "Choose `charge.dispute.funds_reinstated`, which has the returned amount.",
  "charge.dispute.updated": "Choose `charge.dispute.funds_withdrawn` and `charge.dispute.funds_reinstated`.",
};

/** The data of an event that its hint needs. */
export interface HintFacts {
  /** The sentences of `misnamed`. */
  readonly misnamed: readonly string[];
  readonly kind: "session" | "intent" | "subscription" | "invoice" | "other";
  /** Whether the event names a user, and whether the name is a valid user id. */
  readonly user: "none" | "invalid" | "named";
  readonly hasPack: boolean;
  readonly quantity: "none" | "given";
  /** The amount paid for the goods. */
  readonly goods: number | null;
  /** Prices of the invoice's lines that are not in the setting. */
  readonly unset: readonly string[];
  /** Whether the invoice has a line with a price of the setting for which nothing was paid. */
  readonly hasFree: boolean;
}
export const NO_FACTS: HintFacts = {
  ...{
    misnamed: [],
    kind: "other",
    user: "none",
    hasPack: false,
    quantity: "none",
    goods: null,
    unset: [],
    hasFree: false,
  },
};

const GENERIC: Readonly<Partial<Record<LogReason, string>>> = {
  period_over: "The period that was paid for has ended. Settle the payment by hand.",
  proration:
    "Set the price's full `amount` in the setting, so that the share of a proration line is known, and resend the event at Stripe; or settle the payment by hand.",
  lines_missing: "The invoice has more lines than an event contains. Settle the payment by hand.",
  person_erased: "The user was erased. Refund the payment at Stripe, or settle it by hand for another user.",
  trial_over: "The user or the Stripe customer already had the trial of this pack. It is granted only once.",
  coupon_over: "A coupon has already paid for a period of this customer that has not ended when this one begins.",
  covered_by_credit:
    "The customer's credit from earlier invoices covers it, so that it buys nothing. Nothing is to be done.",
  carry:
    "The credit that Purser keeps for the customer took more than Stripe's own balance paid. Compare the two, set the carry, and settle the payment by hand if credits are missing.",
  fault:
    "The grant failed twice for a reason of Purser's own, which its log has. Settle it by hand, and report the fault.",
  quota:
    "The user, or in test mode the application, has the maximum number of balances. Resend the event at Stripe when there are fewer.",
  currency:
    "It was paid in another currency than the setting's `currency`. Change the setting, or send `metadata.quantity`, which needs no currency.",
  connect:
    "It is an event of a connected account. At Stripe, create an endpoint for events on your account, not on connected accounts.",
  thin_event:
    "It is a thin event, which contains no object. At Stripe, choose the payload style Snapshot for this endpoint.",
  setup_mode: 'Nothing is paid in a session with `mode: "setup"`.',
  unpaid:
    "It is not paid yet. Also choose `checkout.session.async_payment_succeeded`, which Stripe sends when it is paid.",
  refunds_owed:
    "Credits of the user under holds owe the maximum number of refunds. Nothing is to be done: Stripe sends the event again, and it takes effect when the holds have ended, after at most 24 hours.",
  no_payment: "It names no payment intent and no charge. Money that moved outside of Stripe has no effect here.",
};

const TO_GRANT: Readonly<Record<HintFacts["kind"], string | null>> = {
  session: "To grant, name the user in `client_reference_id` (or `metadata.user`) and the pack in `metadata.pack`.",
  intent: "To grant, name the user in `metadata.user` and the pack in `metadata.pack` of the payment intent.",
  subscription: "Set `client_reference_id`, or better `subscription_data.metadata.user`, to your user's id.",
  invoice: null,
  other: null,
};

const NAME_USER: Readonly<Record<HintFacts["kind"], string>> = {
  session: "`client_reference_id` is missing: set it, or `metadata.user`, to your user's id.",
  intent: "`metadata.user` is missing: set it to your user's id.",
  subscription: "Set `client_reference_id`, or better `subscription_data.metadata.user`, to your user's id.",
  invoice: "Set `metadata.user` of the subscription (`subscription_data.metadata.user`), or of an invoice without one.",
  other: "No user is named.",
};

/** Returns how to change the integration so that such an event grants. Null if nothing is wrong, or no change helps. */
export function findHint(reason: LogReason, type: string, facts: HintFacts): string | null {
  const sentences = [...misnamedFor(reason, facts), hintForReason(reason, type, facts)];
  return sentences.filter((text) => text !== null).join(" ") || null;
}

const METADATA_REASONS: readonly LogReason[] = ["no_user", "no_pack", "quantity", "another_product", "price_not_set"];
const misnamedFor = (reason: LogReason, facts: HintFacts) => (METADATA_REASONS.includes(reason) ? facts.misnamed : []);

function hintForReason(reason: LogReason, type: string, facts: HintFacts): string | null {
  const { kind, user, hasPack } = facts;
  switch (reason) {
    case "another_type":
      return INSTEAD[type] ?? "Purser does not use this type. You may remove it from the endpoint's events.";
    case "another_product":
      return facts.misnamed.length > 0 ? null : TO_GRANT[kind];
    case "no_user":
      if (user === "invalid")
        return "The user that it names is not a valid user id, which has 1 to 200 characters and no control characters.";
      return facts.misnamed.some((text) => text.endsWith("`user`.")) ? null : NAME_USER[kind];
    case "no_pack":
      if (kind === "invoice")
        return "A line's price has left the setting, or its pack does not exist or is archived. Set the price with a pack, and resend the event at Stripe; or settle the payment by hand.";
      if (hasPack) return "The application has no pack with this id or name, or it is archived.";
      return facts.misnamed.some((text) => text.endsWith("`pack`.")) ? null : "`metadata.pack` is missing.";
    case "quantity":
      return quantityHint(facts);
    case "price_not_set":
      return priceHint(facts);
    case "livemode":
      return "Its `livemode` is not the mode of this URL. Send live events to `/live`, and events of test mode and sandboxes to `/test`.";
    default:
      return GENERIC[reason] ?? null;
  }
}

function priceHint({ unset, hasFree }: HintFacts): string {
  if (unset.length > 0) {
    return `Add ${unset.map((price) => `\`${price.slice(0, 60)}\``).join(", ")} to the setting's \`prices\`.`;
  }
  if (hasFree) return "Nothing was paid for its lines. A trial grants only if the price's setting has `trial: true`.";
  return "No line of the invoice has a price and an amount above 0.";
}

function quantityHint({ kind, quantity, goods, misnamed: wrong }: HintFacts): string | null {
  if (kind === "invoice")
    return "A line's quantity is above 100, or the price's `quantity` does not fit the pack's unit.";
  if (quantity === "given")
    return "`metadata.quantity` must be a number above 0 that the pack's unit can hold, and a whole number from 1 to 100 for a pack with items.";
  if (wrong.some((text) => text.endsWith("`quantity`."))) return null;
  if (goods === 0) return "Nothing was paid, and `metadata.quantity` is missing.";
  return "`metadata.quantity` is missing: a pack without items needs it, unless its unit is `cents`.";
}
