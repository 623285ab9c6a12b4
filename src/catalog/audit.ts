import { and, desc, eq, not, type SQL, sql } from "drizzle-orm";
import { drizzle, fields, hasRow, insertFrom, query, scalar, type ValueOf } from "../db/query.ts";
import { accounts, adminAudit } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import type { AdminCtx, TenantCtx } from "../runtime.ts";

/** The actions of the audit log. */
export const ACTIONS = [
  "admin_key.created",
  "admin_key.revoked",
  "app.created",
  "key.created",
  "key.revoked",
  "end_user_auth.set",
  "limits.set",
  "usage_limit.created",
  "usage_limit.changed",
  "usage_limit.deleted",
  "usage_limit.amount_set",
  "alert.created",
  "alert.changed",
  "alert.deleted",
  "expiry_notices.set",
  "clock.set",
  "clock.removed",
  "pack.created",
  "pack.changed",
  "pack.archived",
  "pack.restored",
  "credits.granted",
  "credits.adjusted",
  "credits.refunded",
  "credits.revoked",
  "reservation.released",
  "recurring.created",
  "recurring.cancelled",
  "recurring.resumed",
  "statement.created",
  "stripe.set",
  "payment.settled",
  "export_link.created",
  "export_link.revoked",
  "person.erased",
  "erasure.lifted",
  "tombstones.forgotten",
  "webhook.created",
  "webhook.changed",
  "webhook.rotated",
  "webhook.deleted",
  "webhook.tested",
  "webhook.resent",
  "webhook.replayed",
] as const;
export type Action = (typeof ACTIONS)[number];

/** The application id of acts that belong to no application. Such acts are in `DB`. */
export const NO_APP = "";

/** One act of administration. */
export interface Act {
  /** Or `NO_APP`. */
  readonly appId: string;
  readonly action: Action;
  /** The id of the changed application, key or pack. */
  readonly target: string;
  /** Must contain no secret, no user id and no free text. */
  readonly details?: Readonly<Record<string, string | number | null | readonly string[]>>;
}

/** A type, because an interface is not assignable to `Values`. */
type ActValues = {
  appId: string;
  actId: string;
  atMs: number;
  by: string;
  action: Action;
  target: string;
  details: string;
};

/** Returns an act's values. The id is made before the write, so that a repeated write finds its own row. */
export function newAct(
  admin: Pick<AdminCtx, "caller" | "newId" | "now"> & { readonly realNow?: () => number },
  { appId, action, target, details = {} }: Act,
): ActValues {
  const { by } = admin.caller;
  return {
    appId,
    actId: admin.newId("aud_"),
    atMs: (admin.realNow ?? admin.now)(),
    by,
    action,
    target,
    details: JSON.stringify(details),
  };
}

/** The values that identify an act's row. A type, because an interface is not assignable to `Values`. */
export type ActKey = { appId: string; actId: string };
const ofApp = (value: ValueOf<{ appId: string }>) => eq(adminAudit.appId, value("appId"));

/** Returns a condition that is true until the act's row is written. It is for statements before that row in the batch. */
export const actIsNew = (value: ValueOf<ActKey>): SQL =>
  not(hasRow(adminAudit, and(ofApp(value), eq(adminAudit.id, value("actId")))));

/**
 * Returns a condition that is true while the act is the application's latest. It is for statements after the act's row in a
 * batch that may run twice; it is false when the batch repeats after another act.
 */
export const actIsLatest = (value: ValueOf<ActKey>): SQL => sql`${newest(value, "id")} = ${value("actId")}`;

/** The values that identify an act's row and the attempt that wrote it. */
export type WrittenAct = ActKey & { atMs: number };
/**
 * Returns whether this attempt wrote the act's row. It is for statements after that row in the batch: when a form is sent twice,
 * the second act has the same id and does nothing.
 */
export const actIsThis = (value: ValueOf<WrittenAct>): SQL =>
  hasRow(adminAudit, and(ofApp(value), eq(adminAudit.id, value("actId")), eq(adminAudit.atMs, value("atMs"))));

const newest = <Name extends "id" | "seq">(value: ValueOf<{ appId: string }>, name: Name) =>
  scalar(
    drizzle
      .select(fields(adminAudit, name))
      .from(adminAudit)
      .where(ofApp(value))
      .orderBy(desc(adminAudit.seq))
      .limit(1),
  );

/** The parts of an act that only the database knows: its user and its details. */
interface OwnColumns {
  readonly accountId?: SQL;
  readonly details?: SQL;
}

/**
 * Returns the statement that writes an act's row once, if `when` is true at that point in the batch. It belongs in the batch of
 * the change itself. `when` says whether anything changes; if not, no row is written.
 */
export function insertAct<Values = ActValues>(
  when: (value: ValueOf<Values & ActValues>) => SQL = () => sql`1`,
  own: (value: ValueOf<Values & ActValues>) => OwnColumns = () => ({}),
) {
  return query((value: ValueOf<Values & ActValues>) =>
    insertFrom(
      adminAudit,
      {
        appId: value("appId"),
        seq: sql`1 + coalesce(${newest(value, "seq")}, 0)`,
        id: value("actId"),
        atMs: value("atMs"),
        actor: value("by"),
        action: value("action"),
        target: value("target"),
        details: value("details"),
        ...own(value),
      },
      sql`WHERE ${and(actIsNew(value), when(value))}`,
    ),
  );
}

type AuditedUser = { environmentId: number; userId: string };

const insertOperatorAct = insertAct<AuditedUser>(undefined, (value) => ({ accountId: auditedAccount(value) }));

/** The account that a user has at this point of the batch, or null. */
const auditedAccount = (value: ValueOf<AuditedUser>) =>
  sql`${scalar(
    drizzle
      .select(fields(accounts, "id"))
      .from(accounts)
      .where(and(eq(accounts.environmentId, value("environmentId")), eq(accounts.userId, value("userId")))),
  )}`;

/** Returns the row of an administrator's act about a user. It belongs to the batch of the act. */
export function actOfOperator(
  ctx: Pick<TenantCtx, "caller" | "newId" | "now" | "realNow" | "environment">,
  userId: string,
  act: Omit<Act, "appId">,
): Statement[] {
  const { caller } = ctx;
  const { id: environmentId, appId, mode } = ctx.environment;
  if (caller.kind !== "admin") return [];
  const values = newAct({ ...ctx, caller }, { ...act, appId, details: { mode, ...act.details } });
  return [insertOperatorAct({ ...values, environmentId, userId })];
}
