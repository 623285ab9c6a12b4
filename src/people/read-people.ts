import { fragment, type Statement, statement } from "../db/sql.ts";
import { jsonChunks } from "../lib/json.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ClaimRecord, depthMax } from "./claims.ts";
import { isUserSql } from "./is-user.ts";
import { needsStoredPeople, type PersonEvent, type StoredPeople } from "./plan-people.ts";

type Ids = { environmentId: number; ids: string };

interface ClaimRow {
  readonly distinctId: string;
  readonly claimedBy: string | null;
  readonly isVerified: 0 | 1;
  readonly version: number;
  /** Null for an id that is only above a linked id. */
  readonly isUser: 0 | 1 | null;
  readonly isClaimer: 0 | 1 | null;
}
interface PropertiesRow {
  readonly distinctId: string;
  readonly properties: string;
  readonly version: number;
}
export type PeopleRow = ClaimRow | PropertiesRow;

const claimColumns = fragment`d.claimed_by AS claimedBy, coalesce(d.claim_is_verified, 0) AS isVerified,
  coalesce(d.claim_version, 0) AS version`;

/** The ids that events link, stored or not. */
const linkedIds = statement<Ids, ClaimRow>`
  SELECT i.value AS distinctId, ${claimColumns},
    coalesce(d.is_identified, 0) OR ${isUserSql(":environmentId", "i.value")} AS isUser,
    EXISTS (
      SELECT 1 FROM distinct_ids INDEXED BY distinct_ids_claimed_by
      WHERE environment_id = :environmentId AND claimed_by = i.value AND claimed_by IS NOT NULL
    ) AS isClaimer
  FROM json_each(:ids) AS i
  LEFT JOIN distinct_ids AS d ON d.environment_id = :environmentId AND d.distinct_id = i.value`;

/** The ids above them, by one claim after another. The nearest come first, so that a limit leaves out the farthest. */
const idsAbove = statement<Ids & { idsMax: number }, ClaimRow>`
  WITH RECURSIVE above (distinct_id) AS (
    SELECT d.claimed_by FROM json_each(:ids) AS i CROSS JOIN distinct_ids AS d
    WHERE d.environment_id = :environmentId AND d.distinct_id = i.value AND d.claimed_by IS NOT NULL
    UNION
    SELECT d.claimed_by FROM above CROSS JOIN distinct_ids AS d
    WHERE d.environment_id = :environmentId AND d.distinct_id = above.distinct_id AND d.claimed_by IS NOT NULL
    LIMIT CAST(:idsMax AS INTEGER)
  )
  SELECT d.distinct_id AS distinctId, ${claimColumns}, NULL AS isUser, NULL AS isClaimer
  FROM above CROSS JOIN distinct_ids AS d
  WHERE d.environment_id = :environmentId AND d.distinct_id = above.distinct_id`;

const propertiesOfIds = statement<Ids, PropertiesRow>`
  SELECT p.distinct_id AS distinctId, p.properties AS properties, p.version AS version
  FROM json_each(:ids) AS i CROSS JOIN id_properties AS p
  WHERE p.environment_id = :environmentId AND p.distinct_id = i.value`;

/** The statements that read what `planPeople` needs. Linear in the events and in the ids above theirs. */
export function peopleReads(ctx: TenantCtx, events: readonly PersonEvent[]): Statement<PeopleRow>[] {
  const environmentId = ctx.environment.id;
  const linked = new Set<string>();
  const changing = new Set<string>();
  for (const event of events) {
    if (!needsStoredPeople(event)) continue;
    changing.add(event.distinctId);
    if (event.link !== null) linked.add(event.distinctId).add(event.link.otherId);
  }
  const claims = jsonChunks([...linked]).flatMap((ids) => [
    linkedIds({ environmentId, ids }),
    // A publishable key cannot claim below this depth. A claim from a secret key could close a circle of any length.
    idsAbove({ environmentId, ids, idsMax: ctx.caller.kind === "secret" ? -1 : linked.size * (depthMax + 1) }),
  ]);
  return [...claims, ...jsonChunks([...changing]).map((ids) => propertiesOfIds({ environmentId, ids }))];
}

/** The stored people, from the rows of `peopleReads`. */
export function storedPeople(rows: readonly PeopleRow[]): StoredPeople {
  const claims = new Map<string, ClaimRecord>();
  const properties: StoredPeople["properties"][number][] = [];
  for (const row of rows) {
    if ("properties" in row) properties.push(row);
    // An id that events link may also be above another id. Then its own row has more.
    else if (row.isUser !== null || !claims.has(row.distinctId)) claims.set(row.distinctId, claimRecord(row));
  }
  return { claims: [...claims.values()], properties };
}

function claimRecord({ distinctId, claimedBy, isVerified, version, isUser, isClaimer }: ClaimRow): ClaimRecord {
  const claim = claimedBy === null ? null : { by: claimedBy, isVerified: isVerified === 1 };
  return { distinctId, claim, version, isUser: isUser === 1, isClaimer: isClaimer === 1 };
}
