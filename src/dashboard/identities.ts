import { and, asc, eq, sql } from "drizzle-orm";
import { computed, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { idProperties } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import type { TenantCtx } from "../runtime.ts";

/** Who a user is, by the properties `name` and `email` of the person with the same id. Null where a property is not set. */
export interface Identity {
  readonly name: string | null;
  readonly email: string | null;
  /** Whether a secret key set the properties. A browser may write any text into those of its own key. */
  readonly isVerified: boolean;
}

const SHOWN_TEXT_MAX = 200;

/** SQL: a property that is a text, or its beginning. Null for another value, and for JSON that SQLite does not read. */
const textProperty = (path: string) =>
  sql<
    string | null
  >`CASE WHEN json_valid(${idProperties.properties}) AND json_type(${idProperties.properties}, ${path}) = 'text'
    THEN substr(${idProperties.properties} ->> ${path}, 1, ${SHOWN_TEXT_MAX}) END`;

const selectIdentities = query((value: ValueOf<{ environmentId: number; ids: string }>) =>
  drizzle
    .select({
      ...fields(idProperties, "distinctId", "isVerified"),
      ...computed({ name: textProperty("$.name"), email: textProperty("$.email") }),
    })
    .from(idProperties)
    .where(
      and(
        eq(idProperties.environmentId, value("environmentId")),
        sql`${idProperties.distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
      ),
    )
    .orderBy(asc(idProperties.isVerified)),
);

/** Returns who these users are, by their ids. The properties of secret keys come before those of other keys. */
export async function readIdentities(
  ctx: TenantCtx,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, Identity>> {
  if (userIds.length === 0) return new Map();
  const ids = JSON.stringify(userIds);
  const rows = await all(ctx.db, selectIdentities({ environmentId: ctx.environment.id, ids }));
  return new Map(
    rows
      .filter(({ name, email }) => name !== null || email !== null)
      .map(({ distinctId, ...identity }) => [distinctId, identity]),
  );
}
