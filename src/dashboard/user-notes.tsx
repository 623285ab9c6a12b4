import * as z from "zod";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { freeText, userId } from "../http/fields.ts";
import { lazy } from "../http/lazy.ts";
import { addUserNote, deleteUserNote, listUserNotes, NOTE_TEXT_MAX, type UserNote } from "../people/user-notes.ts";
import { AppLink } from "./app-link.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { LongText } from "./fields.tsx";
import { type Form, type PageContext, parseForm } from "./form.ts";
import { FormCard, onSubmit, type ShowForm } from "./form-card.tsx";
import { Time } from "./format.tsx";
import { page } from "./layout.tsx";
import { toUser, userPath } from "./links.tsx";
import { repeatable } from "./session.tsx";
import { TableCard } from "./table.tsx";

const NOTES_PATH = "users/notes";

interface UserNotesProps {
  readonly userId: string;
  readonly notes: readonly UserNote[];
}

/** Shows the operators' notes on a user, newest first, and a form for another. */
export const UserNotes = ({ userId, notes }: UserNotesProps) => (
  <>
    {notes.length > 0 && (
      <TableCard
        title="Notes"
        id="user-notes"
        head={["Note", "By", "Created", ""]}
        empty=""
        rows={notes.map(({ noteId, text, by, createdAt }) => [
          <span class="lines">{text}</span>,
          by,
          <Time at={createdAt} />,
          <AppLink to={`${NOTES_PATH}/delete`} fields={{ userId, noteId }}>
            Delete
          </AppLink>,
        ])}
      />
    )}
    <NoteForm userId={userId} />
  </>
);

const NoteForm = ({ userId, rejection }: Omit<UserNotesProps, "notes"> & { rejection?: PurserError | undefined }) => (
  <FormCard
    action={NOTES_PATH}
    title="Add a note"
    about="Operators see it here. It is part of the person's export, without your name, and an erasure deletes it."
    fields={{ userId }}
    rejection={rejection}
    once
    button="Add note"
  >
    <LongText label="Note" name="text" required />
  </FormCard>
);

const rejectedNotePage: ShowForm = (c, { userId = "" }, rejection) =>
  page(c, { title: `User ${userId}`, section: "users", rejection }, <NoteForm userId={userId} rejection={rejection} />);

async function deleteNotePage(c: PageContext, { userId = "", noteId = "" }: Form, rejection?: PurserError) {
  const note = (await listUserNotes(c.var.ctx, userId)).find((each) => each.noteId === noteId);
  return confirmPage(
    c,
    {
      fields: { userId, noteId },
      button: "Delete note",
      cancel: userPath(userId),
      isDangerous: true,
      rejection,
      facts: [["User", userId], note !== undefined && ["Note", <span class="lines">{note.text}</span>]],
    },
    "A deleted note cannot be restored.",
  );
}

/** The fields of a new note. Browsers send the lines of a text with CRLF. */
const noteInput = lazy(() =>
  z.strictObject({
    userId,
    text: z
      .string()
      .transform((text) => text.replaceAll("\r\n", "\n").trim())
      .pipe(freeText(NOTE_TEXT_MAX))
      .refine((text) => text !== "", "must not be empty"),
  }),
);

/** Returns the tab of the notes on the user's page. */
const tabOf = (form: Form, notice: string) => `${toUser(form, notice)}#notes`;

async function add(c: PageContext) {
  const { form } = c.var;
  const { userId, text } = parseForm(noteInput, { userId: form.userId, text: form.text });
  const { newId } = await repeatable(c);
  await callVerb(c, (ctx) => addUserNote({ ...ctx, newId }, userId, text));
  return tabOf(form, "note-added");
}

async function removeNote(c: PageContext) {
  const { form } = c.var;
  await callVerb(c, (ctx) => deleteUserNote(ctx, form.userId ?? "", form.noteId ?? ""));
  return tabOf(form, "note-deleted");
}

export const userNotesRoutes = askRoutes(`/${NOTES_PATH}/delete`, deleteNotePage, removeNote).post(
  `/${NOTES_PATH}`,
  onSubmit(add, rejectedNotePage),
);
