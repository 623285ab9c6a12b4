import { and, desc, eq, sql } from "drizzle-orm";
import { drizzle, fields, query, scalar, type ValueOf } from "../db/query.ts";
import { exportAudit } from "../db/schema.ts";
import { all } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import type { TenantCtx } from "../runtime.ts";
import { presentAuditRow } from "./audit.ts";

const shown = () => fields(exportAudit, "distinctId", "seq", "action", "tokenHash", "keyId", "occurredAtMs");
const isHere = (value: ValueOf<{ environmentId: number }>) => eq(exportAudit.environmentId, value("environmentId"));

/** How many rows of the exports' audit one page looks at. */
export const lookedAtLinksMax = 1_000;

const selectRows = query((value: ValueOf<{ environmentId: number; distinctId: string; seq: number }>) => {
  const { distinctId, seq } = exportAudit;
  return drizzle
    .select(shown())
    .from(exportAudit)
    .where(and(isHere(value), sql`(${distinctId}, ${seq}) > (${value("distinctId")}, ${value("seq")})`))
    .orderBy(distinctId, seq)
    .limit(lookedAtLinksMax + 1);
});

/**
 * Who had an export link made, or opened one, in a time: of all people, the latest of each page first. The audit has no index
 * by time, so a page looks at `lookedAtLinksMax` of its rows, by distinct id, and may have few while others follow. Throws
 * `invalid_request` for a cursor of another list.
 */
export async function findLinks(
  ctx: TenantCtx,
  { action, fromMs, toMs }: { readonly action: "minted" | "opened"; readonly fromMs: number; readonly toMs: number },
  cursor: string | undefined,
) {
  const environmentId = ctx.environment.id;
  const scope = ["export links", environmentId, action, fromMs, toMs];
  const text = cursor === undefined ? '["",0]' : decodeTextCursor(cursor, scope);
  if (text === null) throw invalidCursor();
  // The cursor's checksum says that it was written below.
  const [distinctId, seq] = JSON.parse(text) as [string, number];
  const rows = await all(ctx.db, selectRows({ environmentId, distinctId, seq }));
  const lookedAt = rows.slice(0, lookedAtLinksMax);
  const last = lookedAt.at(-1);
  const isMore = rows.length > lookedAtLinksMax && last !== undefined;
  return {
    links: lookedAt
      .filter((row) => row.action === action && row.occurredAtMs >= fromMs && row.occurredAtMs < toMs)
      .toSorted((a, b) => b.occurredAtMs - a.occurredAtMs)
      .map((row) => ({ ...presentAuditRow(row), seq: row.seq })),
    nextCursor: isMore ? encodeTextCursor(JSON.stringify([last.distinctId, last.seq]), scope) : null,
  };
}

/** The most rows of a person, and of each of their ids, that a list reads. */
const ROWS_MAX = 50;

const newestOfIds = query((value: ValueOf<{ environmentId: number; ids: string }>) => {
  const ofId = and(isHere(value), sql`${exportAudit.distinctId} = item.value`);
  const newest = drizzle
    .select(fields(exportAudit, "seq"))
    .from(exportAudit)
    .where(ofId)
    .orderBy(desc(exportAudit.seq))
    .limit(1);
  return drizzle
    .select(shown())
    .from(sql`json_each(${value("ids")}) AS item`)
    .crossJoin(exportAudit)
    .where(and(ofId, sql`${exportAudit.seq} > ${scalar(newest)} - ${ROWS_MAX}`))
    .orderBy(desc(exportAudit.occurredAtMs), desc(exportAudit.seq))
    .limit(ROWS_MAX);
});

/** The export history of these ids, newest first. */
export async function listExportEvents(ctx: TenantCtx, distinctIds: readonly string[]) {
  const values = { environmentId: ctx.environment.id, ids: JSON.stringify(distinctIds) };
  return (await all(ctx.db, newestOfIds(values))).map(presentAuditRow);
}
