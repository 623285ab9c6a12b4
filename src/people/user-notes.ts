import { and, eq, type SQL, sql } from "drizzle-orm";
import {
  type AuditedUser,
  auditEntryIsOwn,
  auditedAccount,
  insertAuditEntry,
  newAuditEntry,
} from "../catalog/audit.ts";
import { attempt, findConstraint } from "../db/attempt.ts";
import { batchWithGuards, withTombstones } from "../db/known-tombstones.ts";
import { isoJson, presenter, wire } from "../db/presenter.ts";
import { drizzle, fields, hasRow, insertFrom, names, query, type ValueOf } from "../db/query.ts";
import { environments, userNotes } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { personErased, personGuards } from "../db/tombstones.ts";
import { assert, invalid } from "../errors.ts";
import type { TenantCtx } from "../runtime.ts";
import { type PersonKey, personTable } from "./person-walk.ts";

/** A user's notes are in one value of an export, so they must be few and short (exports/select-person-ids.ts). */
const USER_NOTES_MAX = 40;
/** In code points. */
export const NOTE_TEXT_MAX = 1_000;

export interface UserNote {
  readonly noteId: string;
  readonly text: string;
  /** Who wrote it: the name in the audit log. */
  readonly by: string;
  readonly createdAt: string;
}

const noteColumns = wire(userNotes);
const presentNote = presenter({
  noteId: noteColumns.plain("id"),
  text: noteColumns.plain("text"),
  by: noteColumns.plain("actor"),
  createdAt: noteColumns.time("createdAtMs"),
});

/** A type, because an interface is not assignable to `Values`. */
type NoteKey = AuditedUser & { noteId: string };

const notesOfUser = (value: ValueOf<AuditedUser>) =>
  and(eq(userNotes.environmentId, value("environmentId")), eq(userNotes.userId, value("userId")));
const isNote = (value: ValueOf<NoteKey>) => and(notesOfUser(value), eq(userNotes.id, value("noteId")));

const selectNotes = query((value: ValueOf<AuditedUser>) =>
  drizzle
    .select(fields(userNotes, "id", "text", "actor", "createdAtMs"))
    .from(userNotes)
    .where(notesOfUser(value))
    .orderBy(sql`${userNotes.createdAtMs} DESC`, userNotes.id),
);

/** Returns the notes on a user, newest first. */
export async function listUserNotes({ db, environment }: TenantCtx, userId: string): Promise<UserNote[]> {
  return (await all(db, selectNotes({ environmentId: environment.id, userId }))).map(presentNote);
}

const auditNote = (when: (value: ValueOf<NoteKey>) => SQL) =>
  insertAuditEntry<NoteKey>(when, (value) => ({ accountId: auditedAccount(value) }));
const auditNoteCreated = auditNote(
  (value) => sql`(SELECT count(*) FROM ${userNotes} WHERE ${notesOfUser(value)}) < ${USER_NOTES_MAX}`,
);
const auditNoteDeleted = auditNote((value) => hasRow(userNotes, isNote(value)));

type NewNote = NoteKey & { text: string; by: string; createdAtMs: number } & Parameters<typeof auditNoteCreated>[0];

const insertNote = query((value: ValueOf<NewNote>) => {
  const row = {
    environmentId: value("environmentId"),
    userId: value("userId"),
    id: value("noteId"),
    text: value("text"),
    actor: value("by"),
    createdAtMs: value("createdAtMs"),
  };
  const insert = insertFrom(userNotes, row, sql`WHERE ${auditEntryIsOwn(value)}`);
  return sql`${insert} ON CONFLICT (${names(userNotes.environmentId, userNotes.userId, userNotes.id)}) DO NOTHING`;
});
const deleteNote = query((value: ValueOf<NoteKey>) => drizzle.delete(userNotes).where(isNote(value)));

function auditValues(ctx: TenantCtx, action: "note.created" | "note.deleted", noteId: string) {
  const { caller, environment } = ctx;
  assert(caller.kind === "admin", "only administrators write notes");
  const { appId, mode } = environment;
  return newAuditEntry({ ...ctx, caller }, { appId, action, target: noteId, details: { mode } });
}

/**
 * Writes a note on a user, who may be unknown. With the same ids from `ctx.newId` again, it writes nothing more. Throws
 * `person_erased`, and `invalid_request` if the user has as many notes as a user may have.
 */
export async function addUserNote(ctx: TenantCtx, userId: string, text: string): Promise<void> {
  const noteId = ctx.newId("note_");
  const user = { environmentId: ctx.environment.id, userId };
  const note = { ...user, noteId, text, createdAtMs: ctx.now(), ...auditValues(ctx, "note.created", noteId) };
  const write = () =>
    withTombstones(ctx, async (fingerprints, guard) => {
      const guards = [guard, ...(await personGuards(ctx, fingerprints, [userId]))];
      return batchWithGuards(ctx.db, guards, [auditNoteCreated(note), insertNote(note), selectNotes(user)] as const);
    });
  const reject = (error: unknown): never => {
    throw findConstraint(error) === "guard_person" ? personErased("userId") : error;
  };
  const [, , notes] = await attempt(ctx, () => write().catch(reject));
  if (notes.length >= USER_NOTES_MAX && notes.every(({ id }) => id !== noteId)) {
    throw invalid("text", `was not stored: a user has at most ${USER_NOTES_MAX} notes. Delete one first`);
  }
}

/** Deletes a note on a user. No effect if it is deleted already. */
export async function deleteUserNote(ctx: TenantCtx, userId: string, noteId: string): Promise<void> {
  const key = { environmentId: ctx.environment.id, userId, noteId };
  const entry = auditValues(ctx, "note.deleted", noteId);
  await attempt(ctx, () => batch(ctx.db, [auditNoteDeleted({ ...entry, ...key }), deleteNote(key)]));
}

/** SQL: whether an environment has notes. It names no id, so a statement reads it once. */
const hasNotes = (value: ValueOf<PersonKey>) => sql`EXISTS (
  SELECT 1 FROM ${environments} CROSS JOIN ${userNotes} ON ${userNotes.environmentId} = ${environments.id}
  WHERE ${environments.appId} = ${value("appId")} AND ${environments.mode} = ${value("mode")}
)`;

/**
 * SQL: the notes on an id of `person`, oldest first, as the JSON objects of an export, separated by commas. Null when there are none.
 * An export does not say who wrote them (P14).
 */
export const exportedNotes = (value: ValueOf<PersonKey>) => {
  const { environmentId, userId, id, text, createdAtMs } = userNotes;
  const { distinctId } = personTable;
  const note = sql`json_object('distinctId', ${distinctId}, 'text', ${text}, 'createdAt', json(${isoJson(createdAtMs)}))`;
  return sql<string | null>`iif(${hasNotes(value)}, (
    SELECT group_concat(${note}, ',' ORDER BY ${createdAtMs}, ${id}) FROM ${userNotes}
    WHERE ${environmentId} = ${personTable.environmentId} AND ${userId} = ${distinctId}
  ), NULL)`;
};
