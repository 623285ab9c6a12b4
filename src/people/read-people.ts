import { fragment, type Statement, statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import type { ClaimRecord } from "./claims.ts";
import { changesProperties, propertiesBytesMax } from "./id-properties.ts";
import { isUserSql } from "./is-user.ts";
import { needsStoredPeople, type PersonEvent } from "./person-event.ts";
import type { StoredPeople } from "./plan-people.ts";

type Ids = { environmentId: number; ids: string };

interface ClaimRow {
  readonly distinctId: string;
  readonly claimedBy: string | null;
  readonly isVerified: 0 | 1;
  readonly version: number;
  /** Null for an id that is only above a linked id. */
  readonly isUser: 0 | 1 | null;
  readonly claimsMade: number;
}
interface PropertiesRow {
  readonly distinctId: string;
  /** Null when it was left out because those before it are enough to read at a time. */
  readonly properties: string | null;
  readonly version: number;
}
export type PeopleRow = ClaimRow | PropertiesRow;

const claimColumns = fragment`d.claimed_by AS claimedBy, coalesce(d.claim_is_verified, 0) AS isVerified,
  coalesce(d.claim_version, 0) AS version, coalesce(d.claims_made, 0) AS claimsMade`;

/** The ids that events link, stored or not. */
const linkedIds = statement<Ids, ClaimRow>`
  SELECT i.value AS distinctId, ${claimColumns},
    ${isUserSql(":environmentId", "i.value", "d.is_user")} AS isUser
  FROM json_each(:ids) AS i
  LEFT JOIN distinct_ids AS d ON d.environment_id = :environmentId AND d.distinct_id = i.value`;

/** The ids above them, by verified claims: another one could close a circle of any length. */
const idsAbove = statement<Ids, ClaimRow>`
  WITH RECURSIVE above (distinct_id) AS (
    SELECT d.claimed_by FROM json_each(:ids) AS i CROSS JOIN distinct_ids AS d
    WHERE d.environment_id = :environmentId AND d.distinct_id = i.value AND d.claim_is_verified = 1
    UNION
    SELECT d.claimed_by FROM above CROSS JOIN distinct_ids AS d
    WHERE d.environment_id = :environmentId AND d.distinct_id = above.distinct_id AND d.claim_is_verified = 1
  )
  SELECT d.distinct_id AS distinctId, ${claimColumns}, NULL AS isUser
  FROM above CROSS JOIN distinct_ids AS d
  WHERE d.environment_id = :environmentId AND d.distinct_id = above.distinct_id`;

const propertiesOfIds = statement<Ids, PropertiesRow>`
  SELECT p.distinct_id AS distinctId, p.properties AS properties, p.version AS version
  FROM json_each(:ids) AS i CROSS JOIN id_properties AS p
  WHERE p.environment_id = :environmentId AND p.distinct_id = i.value`;

/** The most bytes of properties that are read at a time. */
const PROPERTIES_BYTES_MAX = 2 * 1024 * 1024;
const IDS_WITHIN = PROPERTIES_BYTES_MAX / propertiesBytesMax;

/** The properties of many ids, of the first of them. */
const propertiesWithin = statement<Ids, PropertiesRow>`
  SELECT s.distinct_id AS distinctId, p.version AS version,
    iif(s.bytes <= ${`${PROPERTIES_BYTES_MAX}`}, p.properties, NULL) AS properties
  FROM (
    SELECT i.value AS distinct_id, sum(octet_length(o.properties)) OVER (ORDER BY i.key) AS bytes
    FROM json_each(:ids) AS i CROSS JOIN id_properties AS o
    WHERE o.environment_id = :environmentId AND o.distinct_id = i.value
  ) AS s CROSS JOIN id_properties AS p
  WHERE p.environment_id = :environmentId AND p.distinct_id = s.distinct_id`;

/** The statements that read what `planPeople` needs. Linear in the events, and with a secret key in the ids above theirs. */
export function peopleReads(ctx: TenantCtx, events: readonly PersonEvent[]): Statement<PeopleRow>[] {
  const environmentId = ctx.environment.id;
  const linked = new Set<string>();
  const changing = new Set<string>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    if (changesProperties(event)) changing.add(event.distinctId);
    if (event.link !== null) linked.add(event.distinctId).add(event.link.otherId);
  }
  const claims = jsonChunks([...linked]).flatMap((ids) => [
    linkedIds({ environmentId, ids }),
    ...(ctx.caller.kind === "secret" ? [idsAbove({ environmentId, ids })] : []),
  ]);
  const properties = changing.size > IDS_WITHIN ? propertiesWithin : propertiesOfIds;
  return [...claims, ...jsonChunks([...changing]).map((ids) => properties({ environmentId, ids }))];
}

/** The stored people, from the rows of `peopleReads`; and the ids whose properties were left out. */
export function storedPeople(rows: readonly PeopleRow[]): StoredPeople & { readonly unread: ReadonlySet<string> } {
  const unread = new Set<string>();
  const claims = new Map<string, ClaimRecord>();
  const properties: StoredPeople["properties"][number][] = [];
  for (const row of rows) {
    if ("properties" in row) {
      if (row.properties === null) unread.add(row.distinctId);
      else properties.push({ ...row, properties: row.properties });
    }
    // An id that events link may also be above another id. Then its own row has more.
    else if (row.isUser !== null || !claims.has(row.distinctId)) claims.set(row.distinctId, claimRecord(row));
  }
  return { claims: [...claims.values()], properties, unread };
}

function claimRecord({ distinctId, claimedBy, isVerified, version, isUser, claimsMade }: ClaimRow): ClaimRecord {
  const claim = claimedBy === null ? null : { by: claimedBy, isVerified: isVerified === 1 };
  return { distinctId, claim, version, isUser: isUser === 1, claimsMade };
}
