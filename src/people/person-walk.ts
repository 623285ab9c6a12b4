import { and, desc, eq, gt, gte, isNotNull, lt, type SQL, sql } from "drizzle-orm";
import { alias, type SQLiteColumn } from "drizzle-orm/sqlite-core";
import { boundLimit, computed, drizzle, fields, names, query, type RowOf, type ValueOf } from "../db/query.ts";
import { distinctIds, environments } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { DIGITS } from "../lib/encoding.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { hasAccount, hasOwnConsent, isUserBy } from "./read-people.ts";

/** The columns of an id's record that claims need, from the table or an alias. */
type IdRecord = Readonly<
  Record<"environmentId" | "distinctId" | "isUser" | "isDeviceForm" | "claimIsVerified", SQLiteColumn>
>;

/**
 * Whether the claim on an id counts now (P2): the claim is verified, or the id is a device id and not a user. The claimer is not
 * checked, because its part of the rule cannot change later.
 */
export const claimCounts = (record: IdRecord): SQL =>
  sql`(${record.claimIsVerified} = 1 OR (${record.isDeviceForm} = 1 AND NOT ${isUser(record)}))`;

const isUser = ({ environmentId, distinctId, isUser }: IdRecord): SQL => isUserBy(environmentId, distinctId, isUser);

/** Why an unverified claim does not count. */
export type ClaimFlaw = "identified" | "known" | "account" | "consent";

/** The flaws of the claim on an id, as a JSON list. Empty if it counts. */
export function claimFlaws(record: IdRecord & { readonly isIdentified: SQLiteColumn }): SQL<string> {
  const { environmentId, distinctId, isUser, isIdentified } = record;
  const flaws: Readonly<Record<ClaimFlaw, SQL>> = {
    identified: sql`${isIdentified} = 1`,
    known: sql`${isUser} = 1 AND ${isIdentified} = 0`,
    account: hasAccount(environmentId, distinctId),
    consent: hasOwnConsent(environmentId, distinctId),
  };
  const list = Object.entries(flaws).map(([name, condition]) => sql`iif(${condition}, ${`"${name}",`}, '')`);
  return sql<string>`json('[' || rtrim(${sql.join(list, sql` || `)}, ',') || ']')`;
}

/** The table that `withPerson` defines, with the requested columns of each id. */
export const personTable = alias(distinctIds, "person");
/** Whether only verified claims lead to the id of `person`. */
export const isVerified = sql`person.verified`;

/** The named values of `withPerson`. */
export type PersonKey = { appId: string; mode: string; distinctId: string };

interface Walk {
  readonly idsMax: number;
  /** Does not go beyond ids that claim more than this many. */
  readonly fanMax?: number;
  /** Further columns of `person`. They are null for an id without a record. */
  readonly columns?: readonly (keyof typeof distinctIds.$inferSelect)[];
}

/**
 * WITH: a recursive table `person` of at most `idsMax` ids: the requested one, if its application exists, then those that it claims
 * by claims that count, nearest first (P3). Ids behind an unverified claim are not followed further. An id has one claimer and
 * verified claims form no cycle, so each id occurs once.
 */
export function withPerson(value: ValueOf<PersonKey>, { idsMax, fanMax, columns = [] }: Walk): SQL {
  const own = alias(distinctIds, "own");
  const columnsOf = (from: typeof own | typeof distinctIds) => sql.join(columns.map((name) => sql`, ${from[name]}`));
  const { environmentId, distinctId, claimedBy, claimIsVerified } = distinctIds;
  const ofOwn = and(eq(own.environmentId, environments.id), eq(own.distinctId, value("distinctId")));
  const isClaimed = and(
    sql`${isVerified} = 1`,
    eq(environmentId, personTable.environmentId),
    eq(claimedBy, personTable.distinctId),
    sql`${claimedBy} IS NOT NULL`,
    claimCounts(distinctIds),
    fanMax === undefined ? undefined : claimsAtMost(fanMax),
  );
  return sql`WITH RECURSIVE ${personTable} (
      ${names(environmentId, distinctId)}, verified${sql.join(columns.map((name) => sql`, ${names(distinctIds[name])}`))}
    ) AS (
      SELECT ${environments.id}, ${value("distinctId")}, 1${columnsOf(own)}
      FROM ${environments} ${columns.length === 0 ? sql`` : sql`LEFT JOIN ${distinctIds} AS ${own} ON ${ofOwn}`}
      WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
      UNION ALL
      SELECT ${environmentId}, ${distinctId}, ${claimIsVerified}${columnsOf(distinctIds)}
      FROM ${personTable} CROSS JOIN ${distinctIds} INDEXED BY distinct_ids_claimed_by WHERE ${isClaimed}
      LIMIT ${idsMax}
    )`;
}

/** Whether the current id of `person` claims at most this many ids. */
function claimsAtMost(max: number): SQL {
  const fan = alias(distinctIds, "fan");
  return sql`(
    SELECT count(*) FROM (
      SELECT 1 FROM ${distinctIds} AS ${fan} INDEXED BY distinct_ids_claimed_by
      WHERE ${fan.environmentId} = ${personTable.environmentId} AND ${fan.claimedBy} = ${personTable.distinctId}
        AND ${fan.claimedBy} IS NOT NULL LIMIT ${max + 1}
    )
  ) <= ${max}`;
}

const PERSON_ID_LENGTH = 22;

/** The stable id of a person (P9). It is computed from the environment and the requested id, and not stored. */
export async function personIdOf(environmentId: number, distinctId: string): Promise<string> {
  const bytes = new TextEncoder().encode(`person ${environmentId} ${distinctId}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  let bits = digest.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  let text = "";
  while (text.length < PERSON_ID_LENGTH) {
    text += DIGITS.charAt(Number(bits % 62n));
    bits /= 62n;
  }
  return `per_${text}`;
}

const { environmentId, distinctId, lastActiveDay } = distinctIds;
const idFields = () => ({
  ...fields(distinctIds, "distinctId", "firstSeenAtMs", "lastSeenAtMs", "isIdentified", "claimedBy"),
  ...computed({ eventCount: sql<number>`${distinctIds.eventCount} - ${distinctIds.deletedCount}` }),
});
type IdRow = RowOf<ReturnType<typeof idFields>>;

type IdRange = { environmentId: number; after: string; from: string; to: string; limit: number };
const selectPersonIds = query((value: ValueOf<IdRange>) =>
  drizzle
    .select(idFields())
    .from(distinctIds)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        gt(distinctId, value("after")),
        gte(distinctId, value("from")),
        lt(distinctId, value("to")),
      ),
    )
    .orderBy(distinctId)
    .limit(boundLimit(value("limit"))),
);

/** Distinct ids that begin with a text, by id. Throws `invalid_request` for another list's cursor. */
export async function findPeople(
  ctx: TenantCtx,
  { beginning, limit, cursor }: { beginning: string; limit: number; cursor?: string | undefined },
) {
  const { environment } = ctx;
  const scope = ["found people", environment.id, beginning];
  const after = cursor === undefined ? "" : decodeTextCursor(cursor, scope);
  if (after === null) throw invalidCursor();
  const range = { from: beginning, to: `${beginning}\u{10ffff}` };
  const rows = await all(ctx.db, selectPersonIds({ environmentId: environment.id, after, ...range, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return { people: shown.map(presentId), nextCursor: isMore ? encodeTextCursor(last.distinctId, scope) : null };
}

const presentId = ({ firstSeenAtMs, lastSeenAtMs, ...row }: IdRow) => ({
  ...row,
  firstSeenAt: iso(firstSeenAtMs),
  lastSeenAt: iso(lastSeenAtMs),
});

type PeoplePosition = { environmentId: number; beforeDay: number; beforeId: string; limit: number };
const selectRecent = query((value: ValueOf<PeoplePosition>) =>
  drizzle
    .select({ ...idFields(), ...computed({ lastActiveDay: sql<number>`${lastActiveDay}` }) })
    .from(sql`${distinctIds} INDEXED BY distinct_ids_active`)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        isNotNull(lastActiveDay),
        sql`(${lastActiveDay}, ${distinctId}) < (${value("beforeDay")}, ${value("beforeId")})`,
      ),
    )
    .orderBy(desc(lastActiveDay), desc(distinctId))
    .limit(boundLimit(value("limit"))),
);

/**
 * People's ids by the day of their last event, the latest first. The days may be outdated (db/activity.ts). Throws
 * `invalid_request` for another list's cursor.
 */
export async function recentPeople(ctx: TenantCtx, { limit, cursor }: { limit: number; cursor?: string | undefined }) {
  const { environment } = ctx;
  const scope = ["recent people", environment.id];
  const text = cursor === undefined ? `${Number.MAX_SAFE_INTEGER} ` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const end = text.indexOf(" ");
  const before = { beforeDay: Number(text.slice(0, end)), beforeId: text.slice(end + 1) };
  const rows = await all(ctx.db, selectRecent({ environmentId: environment.id, ...before, limit: limit + 1 }));
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  const isMore = rows.length > limit && last !== undefined;
  return {
    people: shown.map(({ lastActiveDay: _, ...row }) => presentId(row)),
    nextCursor: isMore ? encodeTextCursor(`${last.lastActiveDay} ${last.distinctId}`, scope) : null,
  };
}
