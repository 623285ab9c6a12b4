import { all, statement } from "../db/sql.ts";
import { invalidCursor } from "../errors.ts";
import { decodeTextCursor, encodeTextCursor } from "../lib/cursor.ts";
import { iso } from "../lib/time.ts";
import type { TenantCtx } from "../runtime.ts";

/** How many rows of the exports' audit one page looks at. */
export const lookedAtLinksMax = 1_000;

interface LinkRow {
  readonly distinctId: string;
  readonly seq: number;
  readonly action: "minted" | "opened" | "completed" | "failed";
  readonly tokenHash: string;
  readonly keyId: string | null;
  readonly occurredAtMs: number;
}

const selectRows = statement<{ environmentId: number; distinctId: string; seq: number }, LinkRow>`
  SELECT distinct_id AS distinctId, seq, action, token_hash AS tokenHash, key_id AS keyId, occurred_at_ms AS occurredAtMs
  FROM export_audit WHERE environment_id = :environmentId AND (distinct_id, seq) > (:distinctId, :seq)
  ORDER BY distinct_id, seq LIMIT ${`${lookedAtLinksMax + 1}`}`;

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
      .map(({ occurredAtMs, ...row }) => ({ ...row, occurredAt: iso(occurredAtMs) })),
    nextCursor: isMore ? encodeTextCursor(JSON.stringify([last.distinctId, last.seq]), scope) : null,
  };
}
