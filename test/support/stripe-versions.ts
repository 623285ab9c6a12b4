import type Stripe from "stripe";

/**
 * The API versions of Stripe's events in the tests. `TODAY` is the version of the pinned package `stripe`. The next two are the last
 * versions of the releases "dahlia" and "clover": Stripe changes shapes only with a new release, and within one only adds fields.
 * `BEFORE` is the last version in which an invoice names its payment intent. Many accounts still pin it.
 */
export const TODAY = "2026-10-28.endive" as const;
const DAHLIA = "2026-08-26.dahlia" as const;
export const CLOVER = "2026-02-25.clover" as const;
export const BEFORE = "2025-02-24.acacia" as const;
export const VERSIONS = [TODAY, DAHLIA, CLOVER, BEFORE] as const;
export type ApiVersion = (typeof VERSIONS)[number];

/** Stripe's objects by the types of the pinned package. Decimals that the package decodes are text here, as in JSON. */
export interface Today {
  readonly session: Stripe.Checkout.Session;
  readonly intent: Stripe.PaymentIntent;
  readonly invoice: Omit<Stripe.Invoice, "lines">;
  readonly line: Omit<Stripe.InvoiceLineItem, "quantity_decimal" | "pricing"> & {
    readonly quantity_decimal: string;
    readonly pricing: Omit<Stripe.InvoiceLineItem.Pricing, "unit_amount_decimal"> & {
      readonly unit_amount_decimal: string;
    };
  };
  readonly invoicePayment: Stripe.InvoicePayment;
  readonly charge: Stripe.Charge;
  readonly refund: Stripe.Refund;
  readonly dispute: Stripe.Dispute;
}

/** A field of an object, or of an object in it. */
type PathOf<Shape> = (keyof Shape & string) | `${keyof Shape & string}.${string}`;
type AddedFields = { readonly [Kind in keyof Today]: Partial<Record<ApiVersion, readonly PathOf<Today[Kind]>[]>> };

/**
 * The fields that each version added, which earlier versions lack. They come from the types of the packages that pin these versions:
 * stripe 17.7.0 (acacia), 20.4.1 (clover), 22.6.2 (dahlia) and 23.1.0 (endive), compared interface by interface. Their CHANGELOG.md
 * lists each under "Add support for". Optional fields that no fixture has are left out.
 */
const ADDED_FIELDS: AddedFields = {
  session: {
    [TODAY]: ["allowed_payment_method_types"],
    [DAHLIA]: ["integration_identifier", "managed_payments"],
    [CLOVER]: [
      ...(["customer_account", "origin_context", "permissions", "wallet_options", "automatic_tax.provider"] as const),
      ...(["collected_information.business_name", "collected_information.individual_name"] as const),
      ...(["customer_details.business_name", "customer_details.individual_name"] as const),
    ],
  },
  intent: {
    [TODAY]: ["payment_record"],
    [DAHLIA]: ["allowed_payment_method_types", "managed_payments"],
    [CLOVER]: ["customer_account", "excluded_payment_method_types"],
  },
  invoice: {
    [CLOVER]: ["amount_overpaid", "customer_account", "parent", "total_taxes", "automatic_tax.provider"],
  },
  line: { [DAHLIA]: ["quantity_decimal"], [CLOVER]: ["parent", "pricing", "subtotal", "taxes"] },
  invoicePayment: {},
  charge: { [CLOVER]: ["billing_details.tax_id"] },
  refund: { [DAHLIA]: ["customer", "customer_account", "payment_method"] },
  dispute: {
    [TODAY]: ["intended_submission_method", "evidence_details.submission_method"],
    [CLOVER]: ["balance_transactions.balance_type"],
  },
};

/** Fields of stripe 17.7.0 that later versions removed, with 2025-03-31.basil ("Remove support for" in CHANGELOG.md of 18.0.0). */
export interface Acacia {
  readonly session: { readonly shipping_details: null };
  readonly intent: { readonly invoice: string | null };
  readonly charge: { readonly invoice: string | null };
  readonly invoice: {
    readonly application_fee_amount: number | null;
    readonly charge: string | null;
    readonly discount: null;
    readonly paid: boolean;
    readonly paid_out_of_band: boolean;
    readonly payment_intent: string | null;
    readonly quote: string | null;
    readonly subscription: string | null;
    readonly subscription_details: { readonly metadata: Stripe.Metadata | null } | null;
    readonly tax: number | null;
    readonly total_tax_amounts: readonly [];
    readonly transfer_data: null;
  };
  readonly line: {
    readonly amount_excluding_tax: number | null;
    readonly plan: null;
    readonly price: Omit<Stripe.Price, "unit_amount_decimal"> & { readonly unit_amount_decimal: string };
    readonly proration: boolean;
    readonly proration_details: {
      readonly credited_items: { readonly invoice: string; readonly invoice_line_items: readonly string[] } | null;
    } | null;
    readonly subscription: string | null;
    readonly tax_amounts: readonly [];
    readonly tax_rates: readonly [];
    readonly type: "invoiceitem" | "subscription";
    readonly unit_amount_excluding_tax: string | null;
  };
}

function without(object: object, paths: readonly string[]): Readonly<Record<string, unknown>> {
  const kept = Object.entries(object).filter(([name]) => !paths.includes(name));
  return Object.fromEntries(
    kept.map(([name, value]) => {
      const inner = paths.filter((path) => path.startsWith(`${name}.`)).map((path) => path.slice(name.length + 1));
      const isPlain = inner.length === 0 || typeof value !== "object" || value === null;
      if (isPlain) return [name, value];
      return [name, Array.isArray(value) ? value.map((each) => without(each, inner)) : without(value, inner)];
    }),
  );
}

/** An object in the shape of a version: without later fields, and before basil with the fields that were removed since. */
export function asOf<Kind extends keyof Today>(
  kind: Kind,
  version: ApiVersion,
  object: Today[Kind],
  removed: Kind extends keyof Acacia ? Acacia[Kind] : Record<string, never>,
): Readonly<Record<string, unknown>> {
  const later = VERSIONS.slice(0, VERSIONS.indexOf(version)).flatMap((each) => ADDED_FIELDS[kind][each] ?? []);
  return { ...without(object, later), ...(version === BEFORE ? removed : {}) };
}
