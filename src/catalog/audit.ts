import { and, desc, eq, not, type SQL, sql } from "drizzle-orm";
import { findConstraint } from "../db/attempt.ts";
import { drizzle, fields, hasRow, insertFrom, query, scalar, type ValueOf } from "../db/query.ts";
import { accounts, adminAudit } from "../db/schema.ts";
import type { Statement } from "../db/sql.ts";
import { PurserError } from "../errors.ts";
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
  "prices.set",
  "prices.deleted",
  "unit_names.set",
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
  "payment.carry_set",
  "note.created",
  "note.deleted",
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

/** The application id in entries that belong to no application. Such entries are in `DB`. */
export const NO_APP = "";

/** One action of an administrator, to be written to the audit log. */
export interface NewAuditEntry {
  /** Or `NO_APP`. */
  readonly appId: string;
  readonly action: Action;
  /** The id of the changed application, key or pack. */
  readonly target: string;
  /** Must contain no secret, no user id and no free text. */
  readonly details?: Readonly<Record<string, string | number | null | readonly string[]>>;
}

/** A type, because an interface is not assignable to `Values`. */
type AuditEntryValues = {
  appId: string;
  auditEntryId: string;
  atMs: number;
  by: string;
  action: Action;
  target: string;
  details: string;
  ifLatest: number | null;
};

/** Returns the values of an entry. The id is made before the write, so that a repeated write finds its own row. */
export function newAuditEntry(
  admin: Pick<AdminCtx, "caller" | "newId" | "now" | "ifLatestAuditEntry"> & { readonly realNow?: () => number },
  { appId, action, target, details = {} }: NewAuditEntry,
): AuditEntryValues {
  const { by } = admin.caller;
  return {
    appId,
    auditEntryId: admin.newId("aud_"),
    atMs: (admin.realNow ?? admin.now)(),
    by,
    action,
    target,
    details: JSON.stringify(details),
    ifLatest: admin.ifLatestAuditEntry ?? null,
  };
}

/** The values that identify an entry. A type, because an interface is not assignable to `Values`. */
export type AuditEntryKey = { appId: string; auditEntryId: string };
export const auditOfApp = (value: ValueOf<{ appId: string }>) => eq(adminAudit.appId, value("appId"));

/** Returns a condition that is true until the entry is written. It is for statements before the entry in the batch. */
export const auditEntryIsNew = (value: ValueOf<AuditEntryKey>): SQL =>
  not(hasRow(adminAudit, and(auditOfApp(value), eq(adminAudit.id, value("auditEntryId")))));

/**
 * Returns a condition that is true while the entry is the application's latest. It is for statements after the entry in a batch
 * that may run twice: it is false if another entry was written before the batch runs again.
 */
export const auditEntryIsLatest = (value: ValueOf<AuditEntryKey>): SQL =>
  sql`${newest(value, "id")} = ${value("auditEntryId")}`;

/** The values that identify an entry and the attempt that wrote it. */
export type WrittenAuditEntry = AuditEntryKey & { atMs: number };
/**
 * Returns a condition that is true if this attempt wrote the entry. It is for statements after the entry in the batch: if a form is
 * sent twice, the second attempt has the same id and does nothing.
 */
export const auditEntryIsOwn = (value: ValueOf<WrittenAuditEntry>): SQL =>
  hasRow(
    adminAudit,
    and(auditOfApp(value), eq(adminAudit.id, value("auditEntryId")), eq(adminAudit.atMs, value("atMs"))),
  );

const newest = <Name extends "id" | "seq">(value: ValueOf<{ appId: string }>, name: Name) =>
  scalar(
    drizzle
      .select(fields(adminAudit, name))
      .from(adminAudit)
      .where(auditOfApp(value))
      .orderBy(desc(adminAudit.seq))
      .limit(1),
  );

/**
 * Returns the number after the newest entry's, or after that of the entry which the caller takes for the newest. If that is not the next
 * number, the batch fails with its change (`admin_audit_seq_gapless`).
 */
const nextSeq = (value: ValueOf<AuditEntryValues>): SQL =>
  sql`1 + coalesce(${value("ifLatest")}, ${newest(value, "seq")}, 0)`;

/**
 * Calls a verb that may write only while the entry `latest` is the application's newest. Throws `changed_meanwhile`, in the caller's
 * words, if another one was written before.
 */
export async function changeIfLatest<Result>(
  admin: AdminCtx,
  latest: number,
  { message, param }: { readonly message: string; readonly param: string },
  change: (admin: AdminCtx) => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await change({ ...admin, ifLatestAuditEntry: latest });
  } catch (error) {
    if (findConstraint(error) !== "admin_audit_seq_gapless") throw error;
    throw new PurserError("changed_meanwhile", message, { param, cause: error });
  }
}

/** The parts of an entry that only the database knows: its user and its details. */
interface ComputedColumns {
  readonly accountId?: SQL;
  readonly details?: SQL;
}

/**
 * Returns the statement that writes an entry once, if `when` is true at that point in the batch. Send it in the batch of the
 * change itself. `when` says whether anything changes; if not, no entry is written.
 */
export function insertAuditEntry<Values = AuditEntryValues>(
  when: (value: ValueOf<Values & AuditEntryValues>) => SQL = () => sql`1`,
  computedColumns: (value: ValueOf<Values & AuditEntryValues>) => ComputedColumns = () => ({}),
) {
  return query((value: ValueOf<Values & AuditEntryValues>) =>
    insertFrom(
      adminAudit,
      {
        appId: value("appId"),
        seq: nextSeq(value),
        id: value("auditEntryId"),
        atMs: value("atMs"),
        actor: value("by"),
        action: value("action"),
        target: value("target"),
        details: value("details"),
        ...computedColumns(value),
      },
      sql`WHERE ${and(auditEntryIsNew(value), when(value))}`,
    ),
  );
}

export type AuditedUser = { environmentId: number; userId: string };

const insertOperatorEntry = insertAuditEntry<AuditedUser>(undefined, (value) => ({ accountId: auditedAccount(value) }));

/** The account that a user has at this point of the batch, or null. */
export const auditedAccount = (value: ValueOf<AuditedUser>) =>
  sql`${scalar(
    drizzle
      .select(fields(accounts, "id"))
      .from(accounts)
      .where(and(eq(accounts.environmentId, value("environmentId")), eq(accounts.userId, value("userId")))),
  )}`;

/** Returns the statement that writes the entry of an administrator's action about a user. Send it in the batch of the action. */
export function auditOperator(
  ctx: Pick<TenantCtx, "caller" | "newId" | "now" | "realNow" | "environment">,
  userId: string,
  entry: Omit<NewAuditEntry, "appId">,
): Statement[] {
  const { caller } = ctx;
  const { id: environmentId, appId, mode } = ctx.environment;
  if (caller.kind !== "admin") return [];
  const values = newAuditEntry({ ...ctx, caller }, { ...entry, appId, details: { mode, ...entry.details } });
  return [insertOperatorEntry({ ...values, environmentId, userId })];
}
