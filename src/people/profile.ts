import { and, eq, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, type RowOf, read, type ValueOf } from "../db/query.ts";
import { analyticsEvents, consentLog, distinctIds, idProperties } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { consentFields, presentConsent } from "./consent.ts";
import {
  type ClaimFlaw,
  claimCounts,
  claimFlaws,
  type PersonKey,
  personIdOf,
  personTable,
  withPerson,
} from "./person-walk.ts";

/** The most ids of a person that are read, and the most rows of each id, newest first. */
const PROFILE_IDS_MAX = 50;
const ROWS_OF_ID = 20;

const distinctIdRow = distinctIds;

/** The record of an id. `flaws`: why a claim from a publishable key on it does not count. */
const profileIdFields = () => ({
  ...fields(distinctIdRow, {
    distinctId: "distinctId",
    claimedBy: "claimedBy",
    via: "claimedVia",
    claimedAtMs: "claimedAtMs",
  }),
  ...fields(distinctIdRow, {
    isVerified: "claimIsVerified",
    firstSeenAtMs: "firstSeenAtMs",
    lastSeenAtMs: "lastSeenAtMs",
  }),
  ...fields(distinctIdRow, "isSender", "isIdentified"),
  ...computed({
    counts: sql<boolean>`${claimCounts(distinctIdRow)}`.mapWith(Boolean),
    flaws: claimFlaws(distinctIdRow),
    eventCount: sql<number>`${distinctIdRow.eventCount} - ${distinctIdRow.deletedCount}`,
  }),
});
type ProfileIdRow = RowOf<ReturnType<typeof profileIdFields>>;

// Ids that claim more than a page shows are not followed, so that the page's cost is bounded.
const walk = (value: ValueOf<PersonKey>) => withPerson(value, { idsMax: PROFILE_IDS_MAX, fanMax: PROFILE_IDS_MAX });
const ofPerson = sql`${distinctIdRow.environmentId} = ${personTable.environmentId} AND ${distinctIdRow.distinctId} = ${personTable.distinctId}`;

const idsOfPerson = query((value: ValueOf<PersonKey>) =>
  read(
    profileIdFields(),
    (list) => sql`${walk(value)} SELECT ${list} FROM ${personTable} CROSS JOIN ${distinctIdRow} ON ${ofPerson}`,
  ),
);

type IdKey = { environmentId: number; distinctId: string };

/** The claims of the id itself, whether they count or not. */
const claimsOfId = query((value: ValueOf<IdKey>) =>
  read(
    profileIdFields(),
    (list) => sql`
      SELECT ${list} FROM ${distinctIdRow} INDEXED BY distinct_ids_claimed_by
      WHERE ${distinctIdRow.environmentId} = ${value("environmentId")} AND ${distinctIdRow.claimedBy} = ${value("distinctId")}
        AND ${distinctIdRow.claimedBy} IS NOT NULL LIMIT ${PROFILE_IDS_MAX + 1}`,
  ),
);

/** The most characters of an event's properties on a page, because public keys can send long ones. */
const SHOWN_CHARACTERS_MAX = 4_000;

const propertiesOfId = query((value: ValueOf<IdKey>) => {
  const { environmentId, distinctId } = idProperties;
  return drizzle
    .select(fields(idProperties, "properties"))
    .from(idProperties)
    .where(and(eq(environmentId, value("environmentId")), eq(distinctId, value("distinctId"))));
});

const lastEvents = query((value: ValueOf<PersonKey>) => {
  const e = analyticsEvents;
  return read(
    {
      ...fields(e, "uuid", "event", "distinctId", "timestampMs", "receivedAtMs", "isVerified"),
      ...computed({
        properties: sql<string>`substr(${e.properties}, 1, ${SHOWN_CHARACTERS_MAX})`,
        isTruncated: sql<boolean>`length(${e.properties}) > ${SHOWN_CHARACTERS_MAX}`.mapWith(Boolean),
      }),
    },
    (list) => sql`${walk(value)}
      SELECT ${list} FROM ${personTable} CROSS JOIN ${distinctIdRow} ON ${ofPerson}
      CROSS JOIN ${e} ON ${e.environmentId} = ${distinctIdRow.environmentId} AND ${e.distinctId} = ${distinctIdRow.distinctId}
        AND ${e.seq} > ${distinctIdRow.eventCount} - ${ROWS_OF_ID}
      ORDER BY ${e.receivedAtMs} DESC, ${e.seq} DESC LIMIT ${ROWS_OF_ID}`,
  );
});

const propertiesOfEvent = query((value: ValueOf<{ environmentId: number; uuid: string }>) => {
  const { environmentId, uuid } = analyticsEvents;
  return drizzle
    .select(fields(analyticsEvents, "properties"))
    .from(analyticsEvents)
    .where(and(eq(environmentId, value("environmentId")), eq(uuid, value("uuid"))));
});

/** All properties of an event, as JSON. Throws `not_found`. */
export async function readEventProperties(ctx: TenantCtx, uuid: string): Promise<string> {
  const [row] = await all(ctx.db, propertiesOfEvent({ environmentId: ctx.environment.id, uuid }));
  if (row === undefined) throw new PurserError("not_found", "The environment has no such event.", { param: "uuid" });
  return row.properties;
}

const lastConsents = query((value: ValueOf<PersonKey>) => {
  const [c, last] = [consentLog, alias(consentLog, "last")];
  const lastSeq = sql`(
    SELECT ${last.seq} FROM ${consentLog} AS ${last}
    WHERE ${last.environmentId} = ${personTable.environmentId} AND ${last.distinctId} = ${personTable.distinctId}
    ORDER BY ${last.seq} DESC LIMIT 1
  )`;
  return read(
    consentFields(),
    (list) => sql`${walk(value)}
      SELECT ${list} FROM ${personTable} CROSS JOIN ${c} ON ${c.environmentId} = ${personTable.environmentId}
        AND ${c.distinctId} = ${personTable.distinctId} AND ${c.seq} > ${lastSeq} - ${ROWS_OF_ID}
      ORDER BY ${c.receivedAtMs} DESC, ${c.seq} DESC LIMIT ${ROWS_OF_ID}`,
  );
});

const presentClaim = (row: ProfileIdRow) => ({
  distinctId: row.distinctId,
  claimedBy: row.claimedBy,
  via: row.via,
  linkedAt: row.claimedAtMs === null ? null : iso(row.claimedAtMs),
  isVerified: row.isVerified,
  counts: row.counts,
  // `claimFlaws` wrote this JSON.
  flaws: JSON.parse(row.flaws) as ClaimFlaw[],
  eventCount: row.eventCount,
});

/**
 * A person for the dashboard: the profile, and the newest events and consents. It reads at most `PROFILE_IDS_MAX` ids and
 * `ROWS_OF_ID` rows of each.
 */
export async function readProfile(ctx: TenantCtx, distinctId: string) {
  const { id: environmentId, appId, mode } = ctx.environment;
  const key = { appId, mode, distinctId };
  const one = { environmentId, distinctId };
  const [ids, claims, [properties], events, consents] = await batch(ctx.db, [
    idsOfPerson(key),
    claimsOfId(one),
    propertiesOfId(one),
    lastEvents(key),
    lastConsents(key),
  ]);
  const own = ids.find((row) => row.distinctId === distinctId);
  const others = ids.filter((row) => row !== own);
  const isClaimed = own?.claimedBy !== null && own?.counts === true;
  const isPerson = own !== undefined && (own.isSender || isClaimed || claims.some((row) => row.counts));
  const direct = new Set(claims.map((row) => row.distinctId));
  return {
    person: !isPerson
      ? null
      : {
          personId: await personIdOf(environmentId, distinctId),
          properties: properties?.properties ?? "{}",
          isIdentified: own.isIdentified,
          createdAt: iso(Math.min(...ids.map((row) => row.firstSeenAtMs))),
          lastSeenAt: iso(Math.max(...ids.map((row) => row.lastSeenAtMs))),
        },
    /** The claim on the id itself. Null when there is none. */
    claimed: own === undefined || own.claimedBy === null ? null : presentClaim(own),
    /** The claims of the id, then the claims of those ids. */
    claims: [...claims.slice(0, PROFILE_IDS_MAX), ...others.filter((row) => !direct.has(row.distinctId))].map(
      presentClaim,
    ),
    isTruncated: claims.length > PROFILE_IDS_MAX || ids.length >= PROFILE_IDS_MAX,
    events: events.map(({ timestampMs, receivedAtMs, ...event }) => ({
      ...event,
      timestamp: iso(timestampMs),
      receivedAt: iso(receivedAtMs),
    })),
    consents: consents.map(presentConsent),
  };
}

export type Profile = Awaited<ReturnType<typeof readProfile>>;
