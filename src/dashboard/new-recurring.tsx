import { createRecurringInput } from "../api/recurring/create-recurring-grant.ts";
import { everyPeriod } from "../api/recurring/recurring-shapes.ts";
import { createRecurring } from "../books/recurring/create.ts";
import type { PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { iso, parseTimestamp } from "../lib/time.ts";
import { fromLocalMs } from "../lib/time-zone.ts";
import { confirmPage, stepRoutes, warnAboutId } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { type Form, numberField, type PageContext, parseForm, textField, timeField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { everyText } from "./format.tsx";
import { GrantFields, listOfferedPacks } from "./grant.tsx";
import { page } from "./layout.tsx";
import { RECURRING_PATH, toUser, userPath } from "./links.tsx";

async function newRecurringPage(c: PageContext, form: Form, rejection?: PurserError) {
  const packs = await listOfferedPacks(c);
  return page(
    c,
    { title: "New recurring grant", section: "users", rejection },
    <FormCard
      method="get"
      action={`${RECURRING_PATH}/confirm`}
      form={{ every: "month", rolloverPeriods: "0", ...form }}
      rejection={rejection}
      schema={createRecurringInput}
      // Submitting the same confirmation twice creates one recurring grant.
      fields={{ recurringId: form.recurringId ?? c.var.root.newId("rec_") }}
      button="Continue"
    >
      <GrantFields packs={packs} />
      <Choice label="Every" name="every" options={everyPeriod.unwrap().options} />
      <Field label="First period" name="startsAt" type="datetime-local" hint="in the time zone; empty: now" />
      <Field label="Ends" name="endsAt" type="datetime-local" hint="in the time zone; empty: no end" />
      <Field label="Time zone" name="timeZone" placeholder="Europe/Berlin" hint="empty: UTC" />
      <Field
        label="Rollover periods"
        name="rolloverPeriods"
        required={false}
        hint="empty: credits expire as the pack says"
      />
    </FormCard>,
  );
}

/** Reads a date and time in the form's time zone. The schema rejects what is not a time, or not a zone. */
function localTimeField(form: Form, name: string): string | undefined {
  const text = timeField(form, name);
  const localMs = parseTimestamp(text ?? "");
  return localMs === null
    ? text
    : iso(fromLocalMs({ timeZone: textField(form, "timeZone") ?? "UTC", utcOffsetMs: 0 }, localMs));
}

function readRecurringInput(form: Form) {
  const { startsAt, ...input } = parseForm(createRecurringInput, {
    recurringId: form.recurringId,
    userId: form.userId,
    packId: form.packId,
    quantity: numberField(form, "quantity"),
    every: form.every,
    startsAt: localTimeField(form, "startsAt"),
    endsAt: localTimeField(form, "endsAt"),
    timeZone: textField(form, "timeZone"),
    rolloverPeriods: numberField(form, "rolloverPeriods") ?? null,
  });
  return { ...input, startsAt: startsAt?.atMs };
}

async function confirmRecurring(c: PageContext, form: Form, rejection?: PurserError) {
  const input = readRecurringInput(form);
  const warnings = await warnAboutId(c.var.ctx, input.userId);
  const packs = await listOfferedPacks(c);
  return confirmPage(
    c,
    {
      title: "Confirm recurring grant",
      action: RECURRING_PATH,
      typed: form,
      button: "Create recurring grant",
      cancel: userPath(form.userId),
      warnings,
      rejection,
      facts: [
        ["User", input.userId],
        ["Pack", packs.find(({ packId }) => packId === input.packId)?.packName ?? input.packId],
        [
          "Granted",
          <>
            every {everyText(input.every, input.timeZone)}, from{" "}
            {form.startsAt ? `${form.startsAt} ${input.timeZone}` : "now"}
            {form.endsAt ? `, none from ${form.endsAt} ${input.timeZone}` : ""}
          </>,
        ],
      ],
    },
    "Due periods are granted at once.",
  );
}

async function create(c: PageContext) {
  await callVerb(c, (ctx) => createRecurring(ctx, readRecurringInput(c.var.form)));
  return toUser(c.var.form, "recurring");
}

export const newRecurringRoutes = stepRoutes(`/${RECURRING_PATH}`, {
  form: newRecurringPage,
  confirm: confirmRecurring,
  act: create,
});
