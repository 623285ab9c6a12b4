import { and, eq, gte, lt, sql } from "drizzle-orm";
import { readBalance } from "../books/credits/read-balance.ts";
import { rangeOf } from "../books/credits/users.ts";
import { readReservation } from "../books/usage/read-reservation.ts";
import { asInteger, boundLimit, drizzle, fields, query, read, type ValueOf } from "../db/query.ts";
import { accounts, distinctIds, emailIn, hasEmail, idProperties, paymentNames } from "../db/schema.ts";
import { batch } from "../db/sql.ts";
import { findPayment } from "../payments/payment-lists.ts";
import type { TenantCtx } from "../runtime.ts";
import { catchRejection, type PageContext } from "./form.ts";
import { queryString } from "./format.tsx";

/** Returns whether an object exists. Throws errors other than `not_found`. */
export async function exists(read: () => Promise<unknown>): Promise<boolean> {
  const { rejection } = await catchRejection(read);
  if (rejection !== undefined && !/not_found$/.test(rejection.code)) throw rejection;
  return rejection === undefined;
}

/** Returns the page of the only object with this id. Null when a search is needed. */
export async function pageOfId(c: PageContext, id: string): Promise<string | null> {
  const { ctx } = c.var;
  if (id.startsWith("crb_") && (await exists(() => readBalance(ctx, id)))) {
    return `users/balance${queryString({ balanceId: id })}`;
  }
  const { appId, mode } = ctx.environment;
  if (/^(pi|cs|in|ch)_/.test(id) && (await exists(() => findPayment(c.var.root, appId, mode, id)))) {
    return `payments/${encodeURIComponent(id)}`;
  }
  const isReservation = id.startsWith("res_") && (await exists(() => readReservation(ctx, id)));
  return isReservation ? `users/reservation${queryString({ reservationId: id })}` : null;
}

/** How many of the most recently active ids a search for a part of an id examines. */
export const SEARCHED_IDS_MAX = 10_000;

type Search = { environmentId: number; q: string; limit: number };
// Erased users are skipped, because their ids name nobody.
const selectNewestUsers = query((value: ValueOf<Search>) =>
  read(
    fields(accounts, "userId"),
    (list) => sql`SELECT ${list} FROM (
      SELECT * FROM ${accounts} INDEXED BY accounts_active
      WHERE ${accounts.environmentId} = ${value("environmentId")} AND ${accounts.lastActiveDay} IS NOT NULL
      ORDER BY ${accounts.lastActiveDay} DESC, ${accounts.id} DESC LIMIT ${SEARCHED_IDS_MAX}
    ) AS ${accounts}
    WHERE ${accounts.isErased} = 0 AND instr(lower(${accounts.userId}), lower(${value("q")})) LIMIT ${asInteger(value("limit"))}`,
  ),
);

const selectPeople = query((value: ValueOf<Search>) =>
  read(
    fields(distinctIds, "distinctId"),
    (list) => sql`SELECT ${list} FROM (
      SELECT ${distinctIds.distinctId} FROM ${distinctIds} INDEXED BY distinct_ids_active
      WHERE ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.lastActiveDay} IS NOT NULL
      ORDER BY ${distinctIds.lastActiveDay} DESC, ${distinctIds.distinctId} DESC LIMIT ${SEARCHED_IDS_MAX}
    ) AS ${distinctIds}
    WHERE instr(lower(${distinctIds.distinctId}), lower(${value("q")})) LIMIT ${asInteger(value("limit"))}`,
  ),
);

const selectByEmail = query((value: ValueOf<Search>) =>
  read(
    fields(idProperties, "distinctId"),
    (list) => sql`SELECT ${list} FROM ${idProperties} INDEXED BY id_properties_email
      WHERE ${idProperties.environmentId} = ${value("environmentId")} AND ${hasEmail(idProperties.properties)}
      AND ${emailIn(idProperties.properties)} = lower(${value("q")}) ORDER BY ${idProperties.isVerified} DESC LIMIT ${asInteger(value("limit"))}`,
  ),
);

const selectNewestPayments = query(
  (value: ValueOf<{ environmentId: number; from: string; to: string; limit: number }>) =>
    drizzle
      .select(fields(paymentNames, "name"))
      .from(paymentNames)
      .where(
        and(
          eq(paymentNames.environmentId, value("environmentId")),
          gte(paymentNames.name, value("from")),
          lt(paymentNames.name, value("to")),
        ),
      )
      .orderBy(paymentNames.name)
      .limit(boundLimit(value("limit"))),
);

/**
 * Finds users and people whose ids contain a text, ignoring the case of a to z, among those of the latest activity; all people with this
 * e-mail address; and payments whose ids begin with the text.
 */
export async function findNewest(ctx: TenantCtx, q: string, limit: number) {
  const environmentId = ctx.environment.id;
  const search = { environmentId, q, limit };
  const [users, people, byEmail, payments] = await batch(ctx.db, [
    selectNewestUsers(search),
    selectPeople(search),
    selectByEmail(search),
    selectNewestPayments({ environmentId, ...rangeOf(q), limit }),
  ]);
  return {
    userIds: users.map(({ userId }) => userId),
    distinctIds: [...new Set([...byEmail, ...people].map(({ distinctId }) => distinctId))].slice(0, limit),
    payments: payments.map(({ name }) => name),
  };
}
