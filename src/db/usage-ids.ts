/**
 * An erasure of a member replaces the ids that callers chose for its events and reservations by keyed hashes (ME6). So such an id is
 * looked up in each form in which it may be stored.
 */

import { eq, type Placeholder, type SQL, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import type { Environment, TenantCtx } from "../runtime.ts";
import type { ValueOf } from "./query.ts";
import { reservations, usageEvents } from "./schema.ts";
import { type ErasureSecret, erasureSecrets, hashName } from "./tombstones.ts";

/** Returns the keyed hash under which an id of an event or a reservation is kept. Those of reservations still begin with `res_`. */
export async function hashUsageId(
  secret: ErasureSecret,
  environment: Pick<Environment, "appId" | "mode">,
  id: string,
): Promise<string> {
  const hash = await hashName(secret, environment, "usage", id);
  return id.startsWith("res_") ? `res_${hash}` : hash;
}

/** An id as it was sent, and its hash with each configured secret. */
export type FormsOfId = readonly [sent: string, ...hashes: string[]];

export async function formsOfId(ctx: Pick<TenantCtx, "settings" | "environment">, id: string): Promise<FormsOfId> {
  const secrets = ctx.settings.erasureSecrets === null ? [] : await erasureSecrets(ctx);
  return [id, ...(await Promise.all(secrets.map((secret) => hashUsageId(secret, ctx.environment, id))))];
}

type OfEnvironment = ValueOf<{ environmentId: number }>;
/** The forms of an id, as JSON. */
type Forms = SQL | Placeholder;

/** SQL: the hash of an id, if a row has it. D1 counts no row for a hash that is not found, but one for each value of an IN. */
const storedHash = (find: (hash: SQL) => SQL, forms: Forms) =>
  sql`coalesce(${find(sql`${forms} ->> 1`)}, ${find(sql`${forms} ->> 2`)})`;

const hashedEvent = alias(usageEvents, "hashed_event");
const hashOfEvent = (value: OfEnvironment, forms: Forms) =>
  storedHash(
    (hash) => sql`(SELECT ${hashedEvent.eventId} FROM ${usageEvents} AS ${hashedEvent}
      WHERE ${eq(hashedEvent.environmentId, value("environmentId"))} AND ${hashedEvent.eventId} = ${hash})`,
    forms,
  );

const hashedReservation = alias(reservations, "hashed_reservation");
const hashOfReservation = (value: OfEnvironment, forms: Forms) =>
  storedHash(
    (hash) => sql`(SELECT ${hashedReservation.id} FROM ${reservations} AS ${hashedReservation}
      WHERE ${eq(hashedReservation.environmentId, value("environmentId"))} AND ${hashedReservation.id} = ${hash})`,
    forms,
  );

/** Returns a condition: a row of `usageEvents` has the id, in one of its forms. */
export const hasEventId = (value: OfEnvironment, forms: Forms): SQL =>
  sql`${eq(usageEvents.environmentId, value("environmentId"))}
    AND ${usageEvents.eventId} = coalesce(${hashOfEvent(value, forms)}, ${forms} ->> 0)`;

/** Returns a condition: a row of `reservations` has the id, in one of its forms. */
export const hasReservationId = (value: OfEnvironment, forms: Forms): SQL =>
  sql`${eq(reservations.environmentId, value("environmentId"))}
    AND ${reservations.id} = coalesce(${hashOfReservation(value, forms)}, ${forms} ->> 0)`;

/** SQL: the id of a new event. Null, which its column rejects, if an event has a hash of the id. */
export const idOfNewEvent = (value: OfEnvironment, forms: Forms) =>
  sql<string>`iif(${hashOfEvent(value, forms)} IS NULL, ${forms} ->> 0, NULL)`;

/** SQL: the id of a new reservation. Null, which its column rejects, if a reservation has a hash of the id. */
export const idOfNewReservation = (value: OfEnvironment, forms: Forms) =>
  sql<string>`iif(${hashOfReservation(value, forms)} IS NULL, ${forms} ->> 0, NULL)`;
