import { and, eq, not, or, sql } from "drizzle-orm";
import { drizzle, fields, query, scalar, type ValueOf } from "../../db/query.ts";
import { analyticsEvents, distinctIds } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isDeviceForm, makesUser } from "../claims.ts";
import { isUserBy } from "../user-marks.ts";
import type { CapturedEvent } from "./event.ts";

type DeviceIds = { environmentId: number; ids: string };

export type DeviceRow = { readonly distinctId: string };

const { environmentId, distinctId } = distinctIds;

/** SQL: whether the id's first stored event was sent with a secret key. Reads one event, because no index has this column. */
const isFirstVerified = () =>
  scalar(
    drizzle
      .select(fields(analyticsEvents, "isVerified"))
      .from(analyticsEvents)
      .where(and(eq(analyticsEvents.environmentId, environmentId), eq(analyticsEvents.distinctId, distinctId)))
      .orderBy(analyticsEvents.seq)
      .limit(1),
  );

/**
 * SQL: whether the id sent events with publishable keys. It has no verified mark, so a sender did: an event of a secret key gives
 * its sender such a mark, unless it is personless.
 */
const isSentByPages = () => or(sql`${distinctIds.isSender} = 1`, sql`${isFirstVerified()} = 0`);

const selectDevices = query((value: ValueOf<DeviceIds>) =>
  drizzle
    .select(fields(distinctIds, "distinctId"))
    .from(distinctIds)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        sql`${distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
        not(isUserBy(environmentId, distinctId, distinctIds.isVerifiedUser)),
        isSentByPages(),
      ),
    )
    .limit(1),
);

/**
 * Returns a statement that finds a page's device id that these events of a secret key turn into a user (P2, W16). Send it in
 * the batch of the events, before the writes. Empty when no event does that.
 */
export function selectDevicesMadeUsers(ctx: TenantCtx, events: readonly CapturedEvent[]): Statement<DeviceRow>[] {
  if (ctx.caller.kind !== "secret") return [];
  const ids = new Set(events.filter((event) => makesUser(event, true)).map((event) => event.distinctId));
  const devices = [...ids].filter(isDeviceForm);
  if (devices.length === 0) return [];
  return [selectDevices({ environmentId: ctx.environment.id, ids: JSON.stringify(devices) })];
}
