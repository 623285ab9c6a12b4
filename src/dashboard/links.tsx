import type { Context } from "hono";
import { Id } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { amount, query } from "./format.ts";
import { pathIn } from "./layout.tsx";

interface LinkProps {
  readonly c: Context<DashboardEnv>;
  readonly id: string;
}

/** Links from a thing to the page of another. */
const linkTo = (page: string, name: string, isName = false) =>
  function Link({ c, id }: LinkProps) {
    return <Id id={id} href={`${pathIn(c, page)}${query({ [name]: id })}`} isName={isName} />;
  };

export const UserLink = linkTo("users", "userId", true);
export const PersonLink = linkTo("people", "distinctId", true);
export const BalanceLink = linkTo("users/balance", "balanceId");
export const EventLink = linkTo("users/event", "eventId");
export const ReservationLink = linkTo("users/reservation", "reservationId");

/** `1 count, 500 tokens`. */
export const quantitiesText = (quantities: object): string =>
  Object.entries(quantities)
    .map(([unit, value]) => `${typeof value === "number" ? amount(value) : value} ${unit}`)
    .join(", ");
