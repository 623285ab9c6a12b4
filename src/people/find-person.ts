import { and, asc, eq, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../context.ts";
import { personDistinctIds, persons } from "../db/schema.ts";

export type PersonRow = typeof persons.$inferSelect;
export type DistinctIdRow = typeof personDistinctIds.$inferSelect;

/** Whose a distinct id is. */
export interface FoundPerson {
  /** Null: the id belongs to nobody. */
  readonly person: PersonRow | null;
  /** All of the person's ids, in the order in which they were linked; empty where there is no person. */
  readonly distinctIds: readonly DistinctIdRow[];
}

/** The person whom a distinct id belongs to at this moment, with all of their ids (P3). One trip. */
export async function findPerson(ctx: Ctx, distinctId: string): Promise<FoundPerson> {
  const [[person], distinctIds] = await ctx.db.batch(findPersonStatements(ctx, distinctId));
  return { person: person ?? null, distinctIds };
}

/** The two reads of `findPerson`, for a batch that reads more at the same moment. */
export function findPersonStatements(ctx: Ctx, distinctId: string) {
  const environmentId = ctx.environment.id;
  const personId: SQL = sql`(
    SELECT person_id FROM person_distinct_ids WHERE environment_id = ${environmentId} AND distinct_id = ${distinctId})`;
  return [
    ctx.db
      .select()
      .from(persons)
      .where(and(eq(persons.environmentId, environmentId), eq(persons.id, personId))),
    ctx.db
      .select()
      .from(personDistinctIds)
      .where(
        and(
          eq(personDistinctIds.environmentId, environmentId),
          // Said twice, so that SQLite sees that the partial index holds all that is asked for.
          sql`person_id IS NOT NULL`,
          eq(personDistinctIds.personId, personId),
        ),
      )
      .orderBy(asc(personDistinctIds.linkedAtMs), asc(personDistinctIds.distinctId)),
  ] as const;
}
