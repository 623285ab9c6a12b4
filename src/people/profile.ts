import { and, eq, isNull, sql } from "drizzle-orm";
import { alias } from "drizzle-orm/sqlite-core";
import { computed, drizzle, fields, query, type RowOf, read, type ValueOf } from "../db/query.ts";
import { analyticsEvents, consentLog, distinctIds, idProperties } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { consentFields, presentConsent } from "./consent.ts";
import {
  type ClaimRejection,
  claimCounts,
  claimRejections,
  makePersonId,
  type PersonKey,
  personTable,
  withPerson,
} from "./person-walk.ts";

/** The most ids of a person that are read, and the most rows of each id, newest first. */
const PROFILE_IDS_MAX = 50;
const ROWS_OF_ID = 20;

/** The record of an id. `errors`: why a claim from a publishable key on it does not count. */
const profileIdFields = () => ({
  ...fields(distinctIds, {
    distinctId: "distinctId",
    claimedBy: "claimedBy",
    via: "claimedVia",
    claimedAtMs: "claimedAtMs",
  }),
  ...fields(distinctIds, {
    isVerified: "claimIsVerified",
    firstSeenAtMs: "firstSeenAtMs",
    lastSeenAtMs: "lastSeenAtMs",
  }),
  ...fields(distinctIds, "isSender", "isIdentified", "claimsOverLimit"),
  ...computed({
    counts: sql<boolean>`${claimCounts(distinctIds)}`.mapWith(Boolean),
    flaws: claimRejections(distinctIds),
    eventCount: sql<number>`${distinctIds.eventCount} - ${distinctIds.deletedCount} - ${distinctIds.replacedCount}`,
  }),
});
type ProfileIdRow = RowOf<ReturnType<typeof profileIdFields>>;

// The walk does not follow ids that claim more ids by verified claims than a page shows, so that the cost of a page is bounded. Of other
// claims an id makes at most a thousand (L1).
const withProfileIds = (value: ValueOf<PersonKey>) =>
  withPerson(value, { idsMax: PROFILE_IDS_MAX, verifiedClaimsMax: PROFILE_IDS_MAX });
const ofPerson = sql`${distinctIds.environmentId} = ${personTable.environmentId} AND ${distinctIds.distinctId} = ${personTable.distinctId}`;

const idsOfPerson = query((value: ValueOf<PersonKey>) =>
  read(
    profileIdFields(),
    (list) => sql`${withProfileIds(value)} SELECT ${list} FROM ${personTable} CROSS JOIN ${distinctIds} ON ${ofPerson}`,
  ),
);

type IdKey = { environmentId: number; distinctId: string };

/** The ids that the requested id claims, even by claims that do not count. Verified claims come first. */
const claimsOfId = query((value: ValueOf<IdKey>) =>
  read(
    profileIdFields(),
    (list) => sql`
      SELECT ${list} FROM ${distinctIds} INDEXED BY distinct_ids_claimed_by
      WHERE ${distinctIds.environmentId} = ${value("environmentId")} AND ${distinctIds.claimedBy} = ${value("distinctId")}
        AND ${distinctIds.claimedBy} IS NOT NULL ORDER BY ${distinctIds.claimIsVerified} DESC LIMIT ${PROFILE_IDS_MAX + 1}`,
  ),
);

/** The most characters of an event's properties that a page shows, because publishable keys can send long ones. */
const SHOWN_CHARACTERS_MAX = 4_000;

const propertiesOfId = query((value: ValueOf<IdKey>) => {
  const { environmentId, distinctId } = idProperties;
  return drizzle
    .select(fields(idProperties, "properties", "isVerified"))
    .from(idProperties)
    .where(and(eq(environmentId, value("environmentId")), eq(distinctId, value("distinctId"))));
});

/** The newest events. Of those that are read, verified ones come first, so that others do not crowd them out. */
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
    (list) => sql`${withProfileIds(value)}
      SELECT ${list} FROM ${personTable} CROSS JOIN ${distinctIds} ON ${ofPerson}
      CROSS JOIN ${e} ON ${e.environmentId} = ${distinctIds.environmentId} AND ${e.distinctId} = ${distinctIds.distinctId}
        AND ${e.seq} > ${distinctIds.eventCount} - ${ROWS_OF_ID} AND ${e.replacedBy} IS NULL
      ORDER BY ${e.isVerified} DESC, ${e.receivedAtMs} DESC, ${e.seq} DESC LIMIT ${ROWS_OF_ID}`,
  );
});

type EventKey = { environmentId: number; distinctId: string; uuid: string };
const propertiesOfEvent = query((value: ValueOf<EventKey>) => {
  const { environmentId, distinctId, uuid, replacedBy } = analyticsEvents;
  const ofId = and(eq(environmentId, value("environmentId")), eq(distinctId, value("distinctId")));
  return drizzle
    .select(fields(analyticsEvents, "properties"))
    .from(analyticsEvents)
    .where(and(ofId, eq(uuid, value("uuid")), isNull(replacedBy)));
});

/** Returns all properties of an event, as JSON. Throws `not_found`. */
export async function readEventProperties(
  ctx: TenantCtx,
  event: { readonly distinctId: string; readonly uuid: string },
): Promise<string> {
  const [row] = await all(ctx.db, propertiesOfEvent({ environmentId: ctx.environment.id, ...event }));
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
    (list) => sql`${withProfileIds(value)}
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
  // `claimRejections` wrote this JSON.
  flaws: JSON.parse(row.flaws) as ClaimRejection[],
  eventCount: row.eventCount,
});

/**
 * Returns a person for the dashboard: the profile, and the newest events and consents. It reads at most `PROFILE_IDS_MAX` ids, and
 * `ROWS_OF_ID` rows of each id.
 */
export async function readProfile(ctx: TenantCtx, distinctId: string) {
  const { id: environmentId, appId, mode } = ctx.environment;
  const key = { appId, mode, distinctId };
  const idKey = { environmentId, distinctId };
  const [ids, claims, properties, events, consents] = await batch(ctx.db, [
    idsOfPerson(key),
    claimsOfId(idKey),
    propertiesOfId(idKey),
    lastEvents(key),
    lastConsents(key),
  ]);
  const requested = ids.find((row) => row.distinctId === distinctId);
  const others = ids.filter((row) => row !== requested);
  const isClaimed = requested?.claimedBy !== null && requested?.counts === true;
  const isPerson = requested !== undefined && (requested.isSender || isClaimed || claims.some((row) => row.counts));
  const directIds = new Set(claims.map((row) => row.distinctId));
  return {
    person: !isPerson
      ? null
      : {
          personId: await makePersonId(environmentId, distinctId),
          /** Those that secret keys set, and those that other keys set. Null where there are none. */
          verifiedProperties: properties.find((row) => row.isVerified)?.properties ?? null,
          otherProperties: properties.find((row) => !row.isVerified)?.properties ?? null,
          isIdentified: requested.isIdentified,
          createdAt: iso(Math.min(...ids.map((row) => row.firstSeenAtMs))),
          lastSeenAt: iso(Math.max(...ids.map((row) => row.lastSeenAtMs))),
        },
    /** How many links that the id made by publishable and relay keys had no effect, because of its limits (L1). */
    claimsOverLimit: requested?.claimsOverLimit ?? 0,
    /** The claim on the id itself. Null when there is none. */
    claimed: requested === undefined || requested.claimedBy === null ? null : presentClaim(requested),
    /** The ids that the id claims, then the ids that those ids claim. */
    claims: [...claims.slice(0, PROFILE_IDS_MAX), ...others.filter((row) => !directIds.has(row.distinctId))].map(
      presentClaim,
    ),
    isTruncated: claims.length > PROFILE_IDS_MAX || ids.length >= PROFILE_IDS_MAX,
    events: events
      .toSorted((a, b) => b.receivedAtMs - a.receivedAtMs)
      .map(({ timestampMs, receivedAtMs, ...event }) => ({
        ...event,
        timestamp: iso(timestampMs),
        receivedAt: iso(receivedAtMs),
      })),
    consents: consents.map(presentConsent),
  };
}

export type Profile = Awaited<ReturnType<typeof readProfile>>;
