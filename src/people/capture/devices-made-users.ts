import { and, eq, not, or, sql } from "drizzle-orm";
import { drizzle, fields, hasRow, query, scalar, type ValueOf } from "../../db/query.ts";
import { accounts, analyticsEvents, consentLog, distinctIds } from "../../db/schema.ts";
import type { Statement } from "../../db/sql.ts";
import type { TenantCtx } from "../../runtime.ts";
import { isDeviceForm } from "../claims.ts";
import { makesUser } from "../person-event.ts";
import type { CapturedEvent } from "./event.ts";

type DeviceIds = { environmentId: number; ids: string };
export type DeviceRow = { readonly distinctId: string };

const { environmentId, distinctId } = distinctIds;
const hasOwnAccount = () =>
  hasRow(accounts, and(eq(accounts.environmentId, environmentId), eq(accounts.userId, distinctId)));
const hasConsent = () =>
  hasRow(
    consentLog,
    sql`${and(eq(consentLog.environmentId, environmentId), eq(consentLog.distinctId, distinctId))} AND ${consentLog.isDevice} = 0`,
  );
/** Whether the id's first stored event came with a secret key. Reads one event, because no index has this column. */
const isFirstVerified = () =>
  scalar(
    drizzle
      .select(fields(analyticsEvents, "isVerified"))
      .from(analyticsEvents)
      .where(and(eq(analyticsEvents.environmentId, environmentId), eq(analyticsEvents.distinctId, distinctId)))
      .orderBy(analyticsEvents.seq)
      .limit(1),
  );
/** A secret key's event makes its sender a user, unless it is personless. So other senders come from publishable keys. */
const isOfPages = () => or(sql`${distinctIds.isSender} = 1`, sql`${isFirstVerified()} = 0`);

const selectDevices = query((value: ValueOf<DeviceIds>) =>
  drizzle
    .select(fields(distinctIds, "distinctId"))
    .from(distinctIds)
    .where(
      and(
        eq(environmentId, value("environmentId")),
        sql`${distinctId} IN (SELECT value FROM json_each(${value("ids")}))`,
        sql`${distinctIds.isUser} = 0`,
        not(hasOwnAccount()),
        not(hasConsent()),
        isOfPages(),
      ),
    )
    .limit(1),
);

/**
 * Finds a page's device id that these events of a secret key would turn into a user (P2, W16). Send it in the events' batch, before
 * the writes. Empty when no event does that.
 */
export function devicesMadeUsers(ctx: TenantCtx, events: readonly CapturedEvent[]): Statement<DeviceRow>[] {
  if (ctx.caller.kind !== "secret") return [];
  const ids = new Set(events.filter((event) => makesUser(event, true)).map((event) => event.distinctId));
  const devices = [...ids].filter(isDeviceForm);
  if (devices.length === 0) return [];
  return [selectDevices({ environmentId: ctx.environment.id, ids: JSON.stringify(devices) })];
}
