import { PurserError } from "../errors.ts";

/** Why a payment grants nothing (S3). */
export const REASONS = [
  "no_user",
  "no_pack",
  "quantity",
  "currency",
  "period_over",
  "proration",
  "lines_missing",
  "person_erased",
  "quota",
] as const;
export type Reason = (typeof REASONS)[number];

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
  "no_payment",
] as const;
export type IgnoredReason = (typeof IGNORED_REASONS)[number] | "no_user";

/** The reasons why an event granted nothing, of ignored events and of unmatched payments. */
export const LOG_REASONS = [...REASONS, ...IGNORED_REASONS] as const;
export type LogReason = (typeof LOG_REASONS)[number];

const REFUSALS = new Map<string, Reason>([
  ["test_quota_exceeded", "quota"],
  ["person_erased", "person_erased"],
]);

/** Why a grant was refused. Null for errors that are not a reason of a payment. */
export function reasonOf(error: unknown): Reason | null {
  if (!(error instanceof PurserError)) return null;
  // The user has the maximum number of balances (L6).
  return error.details?.limit === undefined ? (REFUSALS.get(error.code) ?? null) : "quota";
}

/** The likely meaning of unknown metadata keys. They are compared without case, hyphens and underscores. */
const MEANT: Readonly<Record<"user" | "pack" | "quantity", readonly string[]>> = {
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

const plain = (key: string): string => key.toLowerCase().replace(/[-_\s]/g, "");

/** The right names for unknown metadata keys, a sentence each. Values are not repeated. */
export function misnamed(metadata: Readonly<Record<string, unknown>> | null | undefined): readonly string[] {
  const keys = Object.keys(metadata ?? {});
  return KEYS.flatMap((name) => {
    if (metadata?.[name] !== undefined && metadata[name] !== "") return [];
    const found = keys.find((key) => key !== name && (plain(key) === name || MEANT[name].includes(plain(key))));
    return found === undefined ? [] : [`\`metadata.${found.slice(0, 40)}\` is not read: name it \`${name}\`.`];
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
  "refund.created": "Choose `charge.refunded`, which tells all that was refunded of a charge.",
  "charge.dispute.created": "Choose `charge.dispute.funds_withdrawn`, which tells what was withdrawn.",
  "charge.dispute.closed": "Choose `charge.dispute.funds_reinstated`, which tells what came back.",
  "charge.dispute.updated": "Choose `charge.dispute.funds_withdrawn` and `charge.dispute.funds_reinstated`.",
};

/** The data of an event that its hint needs. */
export interface HintFacts {
  /** The sentences of `misnamed`. */
  readonly misnamed: readonly string[];
  readonly kind: "session" | "intent" | "subscription" | "invoice" | "other";
  /** Whether it names a user, and whether that could be a user's id. */
  readonly user: "none" | "invalid" | "named";
  readonly hasPack: boolean;
  readonly quantity: "none" | "given";
  /** The amount paid for the goods. */
  readonly goods: number | null;
  /** Prices of the invoice's lines that are not in the setting. */
  readonly unset: readonly string[];
  /** Whether the invoice has a line of a set price of which nothing was paid. */
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
  proration: "Set the price's full `amount` in the setting, so that the share of a proration line is known.",
  lines_missing: "The invoice has more lines than an event holds. Settle the payment by hand.",
  person_erased: "The user was erased. Refund the payment at Stripe, or settle it by hand for another user.",
  trial_over: "The user had the trial of this price before: it is granted once.",
  quota:
    "The user, or in test mode the application, has as many balances as it may have. Then send the event again at Stripe.",
  currency:
    "It was paid in another currency than the setting's `currency`. Set that, or `metadata.quantity`, which needs no currency.",
  connect:
    "It is of a connected account. At Stripe make an endpoint that listens to events on your account, not on connected ones.",
  thin_event:
    "It is a thin event, which holds no object. At Stripe choose the payload style Snapshot for this endpoint.",
  setup_mode: 'A session with `mode: "setup"` is paid nothing.',
  unpaid: "It is not paid yet. Choose `checkout.session.async_payment_succeeded` too: it tells when it is.",
  no_payment: "It names neither payment intent nor charge: money that moved outside of Stripe moves nothing here.",
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

/** The change that would have made an event grant. Null when there is none, or nothing is wrong. */
export function hintOf(reason: LogReason, type: string, facts: HintFacts): string | null {
  return (
    [...misnamedFor(reason, facts), ownHint(reason, type, facts)].filter((text) => text !== null).join(" ") || null
  );
}

const OF_METADATA: readonly LogReason[] = ["no_user", "no_pack", "quantity", "another_product", "price_not_set"];
const misnamedFor = (reason: LogReason, facts: HintFacts) => (OF_METADATA.includes(reason) ? facts.misnamed : []);

function ownHint(reason: LogReason, type: string, facts: HintFacts): string | null {
  const { kind, user, hasPack } = facts;
  switch (reason) {
    case "another_type":
      return INSTEAD[type] ?? "Nothing is read of this type. You may take it out of the endpoint's events.";
    case "another_product":
      return facts.misnamed.length > 0 ? null : TO_GRANT[kind];
    case "no_user":
      if (user === "invalid") return "The user that it names is no user id: 1 to 200 characters, none of control.";
      return facts.misnamed.some((text) => text.endsWith("`user`.")) ? null : NAME_USER[kind];
    case "no_pack":
      if (kind === "invoice") return "The pack of a line's price is gone or archived: set the price's `packId` anew.";
      if (hasPack) return "The application has no pack of this id or name, or it is archived.";
      return facts.misnamed.some((text) => text.endsWith("`pack`.")) ? null : "`metadata.pack` is missing.";
    case "quantity":
      return quantityHint(facts);
    case "price_not_set":
      return priceHint(facts);
    case "livemode":
      return "Its `livemode` is not this URL's mode: live events go to `/live`, those of test mode and sandboxes to `/test`.";
    default:
      return GENERIC[reason] ?? null;
  }
}

function priceHint({ unset, hasFree }: HintFacts): string {
  if (unset.length > 0) {
    return `Add ${unset.map((price) => `\`${price.slice(0, 60)}\``).join(", ")} to the setting's \`prices\`.`;
  }
  if (hasFree) return "Nothing was paid for its lines: a trial grants where the price's setting says `trial: true`.";
  return "No line of the invoice has a price and an amount above 0.";
}

function quantityHint({ kind, quantity, goods, misnamed: wrong }: HintFacts): string | null {
  if (kind === "invoice")
    return "A line's quantity is above 100, or the price's `quantity` does not fit the pack's unit.";
  if (quantity === "given") return "`metadata.quantity` must be a number above 0 that the pack's unit can hold.";
  if (wrong.some((text) => text.endsWith("`quantity`."))) return null;
  if (goods === 0) return "Nothing was paid, and `metadata.quantity` is missing.";
  return "`metadata.quantity` is missing: a pack without items needs it, unless its unit is `cents`.";
}

/** The hint for a grant of a pack with items when a quantity was named (W16). */
export const QUANTITY_DISREGARDED =
  "`metadata.quantity` is ignored: the pack has items, and each item is granted with its own amount.";
