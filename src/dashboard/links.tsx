import type { RejectionKind } from "../db/rejections.ts";
import type { Mode } from "../runtime.ts";
import { AppLink } from "./app-link.tsx";
import { Id } from "./components.tsx";
import { type Form, useRequest } from "./form.ts";
import { queryString } from "./format.tsx";
import type { Identity } from "./identities.ts";

/** This file has the paths of pages that other pages link to, and components that show such links. */

/** Returns a component that links to the page of another object. */
const linkTo = (page: string, name: string, isName = false) =>
  function Link({ id }: { id: string }) {
    return <Id id={id} to={`${page}${queryString({ [name]: id })}`} isName={isName} />;
  };

export const UserLink = linkTo("users", "userId", true);
export const PersonLink = linkTo("people", "distinctId", true);
export const BalanceLink = linkTo("users/balance", "balanceId");
export const EventLink = linkTo("users/event", "eventId");
export const ReservationLink = linkTo("users/reservation", "reservationId");

export const PaymentLink = ({ id }: { id: string }) => <Id id={id} to={paymentPath(id)} />;

/** Shows who a user is, where the person's properties say so. Nothing otherwise. */
export const IdentityText = ({ identity }: { identity: Identity | null }) =>
  identity === null ? null : (
    <span class="identity" title={identity.isVerified ? undefined : "Set by a browser, not verified"}>
      {[identity.name, identity.email].filter((text) => text !== null).join(" · ")}
      {identity.isVerified ? "" : " (not verified)"}
    </span>
  );

export const userPath = (userId: string | undefined): string => `users${queryString({ userId })}`;

/** Returns the page of the form's user, with a notice. */
export const toUser = ({ userId }: Form, notice: string): string => `users${queryString({ userId, notice })}`;

export const releasePath = ({ reservationId }: { readonly reservationId: string }): string =>
  `users/reservation/release${queryString({ reservationId })}`;

/** The path of the page that creates a recurring grant. The paths of the pages that change one are below it. */
export const RECURRING_PATH = "users/recurring";

/** The path of the page that lists the suspended recurring grants of all users. */
export const suspendedPath = "recurring?state=suspended";

/** Returns the page that lists the rejections of a figure: each user, code and reason. */
export const rejectionsPath = (kind: RejectionKind): string => `rejections${queryString({ kind })}`;

export const paymentPath = (key: string): string => `payments/${encodeURIComponent(key)}`;

/** Returns the payment at Stripe whose credits were granted under a reference. Null for another reference. */
export const paymentKeyOf = (reference: string): string | null => /^stripe:([^:]+)/.exec(reference)?.[1] ?? null;

/** Shows a reference. One of a payment at Stripe says so, and links to the payment. */
export const ReferenceLink = ({ reference }: { reference: string }) => {
  const key = paymentKeyOf(reference);
  if (key === null) return <code>{reference}</code>;
  return (
    <>
      Payment{" "}
      <AppLink to={paymentPath(key)} title={reference}>
        <code>{key}</code>
      </AppLink>
    </>
  );
};

/** Explains the column of what a refund did not find. */
export const ALREADY_SPENT =
  "Already spent: due back, but not there any more, because it was spent, is held or was revoked. It is not asked for again.";

const STRIPE_PAGES: Readonly<Record<string, string>> = {
  ...{ pi: "payments", ch: "payments", py: "payments", in: "invoices" },
  ...{ evt: "events", cus: "customers", sub: "subscriptions" },
};
/** Links to an object at Stripe. */
export const StripeLink = ({ id }: { id: string }) => (
  <a href={stripeUrl(id, useRequest().var.ctx.environment.mode)}>{id}</a>
);

/** Returns the address of an object at Stripe, such as the payment, where it can be refunded. */
export function stripeUrl(id: string, mode: Mode): string {
  const key = encodeURIComponent(id);
  const test = mode === "test" ? "test/" : "";
  const found = STRIPE_PAGES[key.slice(0, key.indexOf("_"))];
  const path = found === undefined ? `search?query=${key}` : `${found}/${key}`;
  return `https://dashboard.stripe.com/${test}${path}`;
}
