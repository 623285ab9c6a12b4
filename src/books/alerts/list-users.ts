import { and, eq, gt } from "drizzle-orm";
import { drizzle, fields, query, type ValueOf } from "../../db/query.ts";
import { accounts, alertStates } from "../../db/schema.ts";
import { all } from "../../db/sql.ts";
import { invalidCursor } from "../../errors.ts";
import { decodeCursor, encodeCursor } from "../../lib/cursor.ts";
import type { SystemCtx } from "../../runtime.ts";
import type { AlertKey } from "./alerts.ts";
import { requireAlert } from "./own-alert.ts";
import type { ListAlertUsersOutput } from "./responses.ts";
import type { ListAlertUsersInput } from "./schemas.ts";

const selectAlertUsers = query((value: ValueOf<AlertKey & { afterId: number; limit: number }>) =>
  drizzle
    .select(fields(accounts, "id", "userId"))
    .from(alertStates)
    .innerJoin(accounts, eq(accounts.id, alertStates.accountId))
    .where(
      and(
        eq(alertStates.environmentId, value("environmentId")),
        eq(alertStates.alertId, value("alertId")),
        gt(alertStates.accountId, value("afterId")),
      ),
    )
    .orderBy(alertStates.accountId)
    .limit(value("limit")),
);

/**
 * Returns the users for whom an alert has gone off and was not lifted since, the oldest user first. Throws `not_found` and
 * `invalid_request`.
 */
export async function listAlertUsers(
  root: SystemCtx,
  appId: string,
  alertId: string,
  { limit, cursor }: ListAlertUsersInput,
): Promise<ListAlertUsersOutput> {
  const { environmentId } = await requireAlert(root, appId, alertId);
  const scope = ["alert users", environmentId, alertId];
  const afterId = cursor === undefined ? 0 : decodeCursor(cursor, scope);
  if (afterId === null) throw invalidCursor();
  const rows = await all(root.db, selectAlertUsers({ environmentId, alertId, afterId, limit: limit + 1 }));
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return {
    users: page.map(({ userId }) => ({ userId })),
    nextCursor: last === undefined ? null : encodeCursor(last.id, scope),
  };
}
