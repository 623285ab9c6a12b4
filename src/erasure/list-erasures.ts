import { and, desc, eq, sql } from "drizzle-orm";
import { boundLimit, drizzle, fields, query, type ValueOf } from "../db/query.ts";
import { erasures } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { cutPage, decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { TenantCtx } from "../runtime.ts";
import { type ErasureOutput, presentErasure } from "./receipt.ts";

type ErasureListPage = { environmentId: number; beforeMs: number; beforeId: string; limit: number };

const selectErasures = query((value: ValueOf<ErasureListPage>) => {
  const { environmentId, startedAtMs, id } = erasures;
  return drizzle
    .select(fields(erasures))
    .from(sql`${erasures} INDEXED BY erasures_started`)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        sql`(${startedAtMs}, ${id}) < (${value("beforeMs")}, ${value("beforeId")})`,
      ),
    )
    .orderBy(desc(startedAtMs), desc(id))
    .limit(boundLimit(value("limit")));
});

/** Returns the erasures of an environment, newest first. Throws `invalid_request` for another list's cursor. */
export async function listErasures(
  ctx: TenantCtx,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
): Promise<{ readonly rows: readonly ErasureOutput[]; readonly nextCursor: string | null }> {
  const environmentId = ctx.environment.id;
  const scope = ["erasures", environmentId];
  const text = cursor === undefined ? `${Number.MAX_SAFE_INTEGER} ` : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  const [beforeMs = "", beforeId = ""] = text.split(" ");
  const rows = await all(
    ctx.db,
    selectErasures({ environmentId, beforeMs: Number(beforeMs), beforeId, limit: limit + 1 }),
  );
  const { page, last } = cutPage(rows, limit);
  return {
    rows: page.map((row) => presentErasure(ctx, row)),
    nextCursor: last === undefined ? null : encodeTextCursor(`${last.startedAtMs} ${last.id}`, scope),
  };
}
