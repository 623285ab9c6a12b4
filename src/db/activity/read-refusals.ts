import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import { all, statement } from "../sql.ts";
import { type RefusalKind, refusalsMax } from "./refusals.ts";

interface RefusalRow {
  readonly userId: string;
  readonly subject: string;
  readonly reason: string;
  readonly times: number;
  readonly lastAtMs: number;
}

const selectRefusals = statement<{ environmentId: number; kind: RefusalKind }, RefusalRow>`
  SELECT user_id AS userId, subject, reason, times, last_at_ms AS lastAtMs FROM refusals INDEXED BY refusals_latest
  WHERE environment_id = :environmentId AND kind = :kind ORDER BY last_at_ms DESC LIMIT ${`${refusalsMax}`}`;

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
