import { batch, type Statement } from "../../db/sql.ts";
import { warn } from "../../http/warnings.ts";
import type { TenantCtx } from "../../runtime.ts";
import { erasedCounts, isCounted } from "../limits/count.ts";
import { devicesMadeUsers } from "./devices-made-users.ts";
import type { CapturedEvent } from "./event.ts";
import { eventWrites } from "./event-statements.ts";
import type { Remaining } from "./without-erased.ts";

/** What a batch begins with, and which of its events it stores. */
export interface Landing {
  /** The guards of a batch that stores some events. */
  readonly guards: (events: readonly CapturedEvent[]) => Promise<readonly Statement[]>;
  readonly remaining: Remaining;
}

/**
 * Stores what erasures leave of events, with the statements that follow from them, in one batch. Events of erased ids are counted
 * alone (E4). `guard` stands before all of it.
 */
export async function writeEvents(
  ctx: TenantCtx,
  { guards, remaining }: Landing,
  events: readonly CapturedEvent[],
  nowMs: number,
  following: readonly Statement[],
  guard: readonly Statement[] = [],
): Promise<void> {
  const kept = remaining.of(events);
  const isErased = ({ distinctId }: CapturedEvent) => remaining.erased.get(distinctId)?.blocks === true;
  const before = [...(await guards(kept)), ...guard];
  const devices = devicesMadeUsers(ctx, kept);
  const rows: readonly unknown[][] = await batch(ctx.db, [
    ...before,
    ...devices,
    ...eventWrites(ctx, kept, nowMs),
    ...erasedCounts(ctx, isCounted(ctx) ? events.filter(isErased) : [], nowMs),
    ...following,
  ]);
  const found = rows.slice(before.length, before.length + devices.length);
  if (found.some(({ length }) => length > 0)) warn(ctx, "device_made_user");
}
