import { and, asc, eq, type SQL, sql } from "drizzle-orm";
import { personDistinctIds, persons } from "../../src/db/schema.ts";
import type { Ctx } from "../../src/runtime.ts";

type PersonRow = typeof persons.$inferSelect;
type DistinctIdRow = typeof personDistinctIds.$inferSelect;

/** Whose a distinct id is. */
interface FoundPerson {
  /** Null: the id belongs to nobody. */
  readonly person: PersonRow | null;
  /** All of the person's ids, in the order in which they were linked; empty where there is no person. */
  readonly distinctIds: readonly DistinctIdRow[];
}

/** The person whom a distinct id belongs to at this moment, with all of their ids (P3). */
export async function findPerson(ctx: Ctx, distinctId: string): Promise<FoundPerson> {
  const environmentId = ctx.environment.id;
  const personId: SQL = sql`(
    SELECT person_id FROM person_distinct_ids WHERE environment_id = ${environmentId} AND distinct_id = ${distinctId})`;
  const [[person], distinctIds] = await ctx.db.batch([
    ctx.db
      .select()
      .from(persons)
      .where(and(eq(persons.environmentId, environmentId), eq(persons.id, personId))),
    ctx.db
      .select()
      .from(personDistinctIds)
      .where(and(eq(personDistinctIds.environmentId, environmentId), eq(personDistinctIds.personId, personId)))
      .orderBy(asc(personDistinctIds.linkedAtMs), asc(personDistinctIds.distinctId)),
  ]);
  return { person: person ?? null, distinctIds };
}
