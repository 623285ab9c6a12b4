import { and, desc, eq, sql } from "drizzle-orm";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { drizzle, fields, query, type ValueOf } from "../query.ts";
import { refusals } from "../schema.ts";
import { all } from "../sql.ts";
import { type RefusalKind, refusalsMax } from "./refusals.ts";

const selectRefusals = query((value: ValueOf<{ environmentId: number; kind: RefusalKind }>) =>
  drizzle
    .select(fields(refusals, "userId", "subject", "reason", "times", "lastAtMs"))
    .from(sql`${refusals} INDEXED BY refusals_latest`)
    .where(and(eq(refusals.environmentId, value("environmentId")), eq(refusals.kind, value("kind"))))
    .orderBy(desc(refusals.lastAtMs))
    .limit(refusalsMax),
);

/** What was refused of late, the latest first, as far as isolates told it (refusals.ts). */
export async function readRefusals(ctx: TenantCtx, kind: RefusalKind) {
  const rows = await all(ctx.db, selectRefusals({ environmentId: ctx.environment.id, kind }));
  return rows.map(({ reason, lastAtMs, userId, ...row }) => ({
    ...row,
    /** Null for a person who was erased. */
    userId: userId === "" ? null : userId,
    // `noteRefusal` wrote this JSON.
    reason: JSON.parse(reason) as Readonly<Record<string, unknown>>,
    lastAt: iso(lastAtMs),
  }));
}
