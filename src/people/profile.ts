import type { analyticsEvents } from "../db/schema.ts";
import { batch, fragment, statement } from "../db/sql.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ConsentRow, consentColumns, presentConsent } from "./consent.ts";
import { personIdOf } from "./person-id.ts";
import { claimCountsSql, claimFlawsSql, type PersonKey, personWalk } from "./person-walk.ts";

/** The most ids of a person that are read, and the most rows of each id, newest first. */
const IDS_MAX = 50;
const ROWS_OF_ID = 20;

/** The record of an id. `flaws`: why a claim from a publishable key on it does not count. */
interface IdRow {
  readonly distinctId: string;
  readonly claimedBy: string | null;
  readonly via: "identify" | "alias" | null;
  readonly claimedAtMs: number | null;
  readonly isVerified: 0 | 1;
  readonly counts: 0 | 1;
  readonly flaws: string;
  readonly eventCount: number;
  readonly firstSeenAtMs: number;
  readonly lastSeenAtMs: number;
  readonly isSender: 0 | 1;
  readonly isIdentified: 0 | 1;
}
type EventRow = Pick<
  typeof analyticsEvents.$inferSelect,
  "uuid" | "event" | "distinctId" | "timestampMs" | "receivedAtMs" | "properties"
> & { readonly isVerified: 0 | 1 };

const columns = fragment`d.distinct_id AS distinctId, d.claimed_by AS claimedBy, d.claimed_via AS via,
  d.claimed_at_ms AS claimedAtMs, d.claim_is_verified AS isVerified, ${claimCountsSql("d")} AS counts,
  ${claimFlawsSql("d")} AS flaws, d.event_count - d.deleted_count AS eventCount, d.first_seen_at_ms AS firstSeenAtMs,
  d.last_seen_at_ms AS lastSeenAtMs, d.is_sender AS isSender, d.is_identified AS isIdentified`;
const ofPerson = fragment`d.environment_id = i.environment_id AND d.distinct_id = i.distinct_id`;

// An id that claims more than are shown is walked no further: what a page costs is bounded.
const walk = personWalk({ idsMax: IDS_MAX, fanMax: IDS_MAX });

const idsOfPerson = statement<PersonKey, IdRow>`${walk}
  SELECT ${columns} FROM person AS i CROSS JOIN distinct_ids AS d ON ${ofPerson}`;

/** The claims of the id itself, whether they count or not. */
const claimsOfId = statement<{ environmentId: number; distinctId: string }, IdRow>`
  SELECT ${columns} FROM distinct_ids AS d INDEXED BY distinct_ids_claimed_by
  WHERE d.environment_id = :environmentId AND d.claimed_by = :distinctId AND d.claimed_by IS NOT NULL
  LIMIT ${`${IDS_MAX + 1}`}`;

const propertiesOfId = statement<{ environmentId: number; distinctId: string }, { properties: string }>`
  SELECT properties FROM id_properties WHERE environment_id = :environmentId AND distinct_id = :distinctId`;

const lastEvents = statement<PersonKey, EventRow>`${walk}
  SELECT e.uuid AS uuid, e.event AS event, e.distinct_id AS distinctId, e.timestamp_ms AS timestampMs,
    e.received_at_ms AS receivedAtMs, e.is_verified AS isVerified, e.properties AS properties
  FROM person AS i CROSS JOIN distinct_ids AS d ON ${ofPerson}
  CROSS JOIN analytics_events AS e ON e.environment_id = d.environment_id AND e.distinct_id = d.distinct_id
    AND e.seq > d.event_count - ${`${ROWS_OF_ID}`}
  ORDER BY e.received_at_ms DESC, e.seq DESC LIMIT ${`${ROWS_OF_ID}`}`;

const lastConsents = statement<PersonKey, ConsentRow>`${walk}
  SELECT ${consentColumns("c")}
  FROM person AS i CROSS JOIN consent_log AS c
    ON c.environment_id = i.environment_id AND c.distinct_id = i.distinct_id AND c.seq > (
      SELECT seq FROM consent_log WHERE environment_id = i.environment_id AND distinct_id = i.distinct_id
      ORDER BY seq DESC LIMIT 1
    ) - ${`${ROWS_OF_ID}`}
  ORDER BY c.received_at_ms DESC, c.seq DESC LIMIT ${`${ROWS_OF_ID}`}`;

const presentClaim = (row: IdRow) => ({
  distinctId: row.distinctId,
  claimedBy: row.claimedBy,
  via: row.via,
  linkedAt: row.claimedAtMs === null ? null : iso(row.claimedAtMs),
  isVerified: row.isVerified === 1,
  counts: row.counts === 1,
  // The statement above wrote this JSON.
  flaws: JSON.parse(row.flaws) as ("identified" | "known" | "account" | "consent")[],
  eventCount: row.eventCount,
});

/**
 * A person for the dashboard: the profile, and the newest events and consents. It reads at most `IDS_MAX` ids and
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
  const isClaimed = own?.claimedBy !== null && own?.counts === 1;
  const isPerson = own !== undefined && (own.isSender === 1 || isClaimed || claims.some((row) => row.counts === 1));
  const direct = new Set(claims.map((row) => row.distinctId));
  return {
    person: !isPerson
      ? null
      : {
          personId: await personIdOf(environmentId, distinctId),
          properties: properties?.properties ?? "{}",
          isIdentified: own.isIdentified === 1,
          createdAt: iso(Math.min(...ids.map((row) => row.firstSeenAtMs))),
          lastSeenAt: iso(Math.max(...ids.map((row) => row.lastSeenAtMs))),
        },
    /** The claim on the id itself. Null when there is none. */
    claimed: own === undefined || own.claimedBy === null ? null : presentClaim(own),
    /** The claims of the id, then the claims of those ids. */
    claims: [...claims.slice(0, IDS_MAX), ...others.filter((row) => !direct.has(row.distinctId))].map(presentClaim),
    isTruncated: claims.length > IDS_MAX || ids.length >= IDS_MAX,
    events: events.map(({ timestampMs, receivedAtMs, isVerified, ...event }) => ({
      ...event,
      isVerified: isVerified === 1,
      timestamp: iso(timestampMs),
      receivedAt: iso(receivedAtMs),
    })),
    consents: consents.map(presentConsent),
  };
}

export type Profile = Awaited<ReturnType<typeof readProfile>>;
