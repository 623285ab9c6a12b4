import { invalidCursor } from "../../errors.ts";
import { byCodePoints } from "../../lib/code-points.ts";
import { decodeTextCursor, encodeTextCursor } from "../../lib/cursor.ts";
import { iso } from "../../lib/time.ts";
import type { TenantCtx } from "../../runtime.ts";
import type { UnitAmounts } from "../amounts/amount.ts";
import { presentAmounts, readUsageGroups } from "./usage-groups.ts";

export interface MembersInput {
  readonly userId: string;
  readonly from: number;
  readonly to: number;
  readonly limit: number;
  readonly cursor?: string | undefined;
}

export interface MembersOutput {
  readonly members: {
    readonly memberId: string;
    readonly events: number;
    readonly quantities: UnitAmounts;
    readonly debited: UnitAmounts;
    readonly lastUsedAt: string;
  }[];
  readonly nextCursor: string | null;
}

/**
 * Returns a page of the members who used what the user paid for in [from, to), each with their usage, in the order of their ids (ME3).
 * Throws `invalid_request` for a span with too many events or groups.
 */
export async function listMembers(ctx: TenantCtx, input: MembersInput): Promise<MembersOutput> {
  const { userId, from, to, limit, cursor } = input;
  const scope = ["members", ctx.environment.id, userId];
  const after = cursor === undefined ? null : decodeTextCursor(cursor, scope);
  if (cursor !== undefined && after === null) throw invalidCursor();
  const groups = await readUsageGroups(ctx, { userId, from, to, by: ["member"], isGrouped: true });
  const later = groups
    .flatMap(({ memberId, ...group }) => (memberId === null ? [] : [{ memberId, ...group }]))
    .filter(({ memberId }) => after === null || byCodePoints(memberId, after) > 0)
    .toSorted((a, b) => byCodePoints(a.memberId, b.memberId));
  const page = later.slice(0, limit);
  const last = page.length < later.length ? page.at(-1) : undefined;
  return {
    members: page.map(({ memberId, events, used, debited, lastMs }) => ({
      ...{ memberId, events, quantities: presentAmounts(used), debited: presentAmounts(debited) },
      lastUsedAt: iso(lastMs),
    })),
    nextCursor: last === undefined ? null : encodeTextCursor(last.memberId, scope),
  };
}
