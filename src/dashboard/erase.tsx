import { erasePersonInput } from "../api/people/erase-person.ts";
import { erasureReason } from "../api/people/people-shapes.ts";
import type { ErasureCounts } from "../erasure/counts.ts";
import { liftErasure } from "../erasure/lift.ts";
import { readErasure } from "../erasure/receipt.ts";
import {
  type ErasePersonInput,
  type ErasePersonOutput,
  erasePerson,
  findUnverifiedIds,
} from "../erasure/start-erasure.ts";
import { invalid, PurserError } from "../errors.ts";
import { sha256 } from "../lib/encoding.ts";
import type { TenantCtx } from "../runtime.ts";
import { AppLink } from "./app-link.tsx";
import { Card, Facts, SubmitButton } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Check, Choice, Field } from "./fields.tsx";
import { type Form, type PageContext, parseForm, textField } from "./form.ts";
import { AppForm, onSubmit, type ShowForm } from "./form-card.tsx";
import { amountText, queryString, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { numberHead, Table } from "./table.tsx";
import { QuantityList } from "./unit-amount.tsx";

const reasons = () => erasureReason.unwrap().options.map((reason) => [reason, reason.replaceAll("_", " ")] as const);

const rowsOf = (counts: Readonly<Record<string, number | undefined>>, result: string) =>
  Object.entries(counts).flatMap(([name, rows = 0]) => (rows === 0 ? [] : [[name, amountText(rows), result]]));

/** Shows the numbers of rows where there are some: first the deleted ones, then those that the books keep. */
const CountsTable = ({ counts: { erased, pseudonymised, revoked } }: { counts: ErasureCounts }) => (
  <>
    <Table
      label="Rows"
      head={["Data", numberHead("Rows"), "Result"]}
      empty="No rows."
      rows={[...rowsOf(erased, "Deleted"), ...rowsOf(pseudonymised, "Kept, pseudonymised")]}
    />
    <p>
      Credits revoked: <QuantityList of={revoked} none="none" />.
    </p>
  </>
);

/** Shown before the erasure, and in its receipt. */
const UNDO = "Erased data cannot be restored. Nothing is stored for these ids until the erasure is lifted.";

/** The most characters of the ids in the form. For longer lists the form has a hash of the ids instead. */
const FORM_IDS_CHARACTERS_MAX = 100_000;

async function shownFormFields({
  distinctIds = [],
  distinctIdCount,
}: ErasePersonOutput): Promise<Record<string, string>> {
  const text = JSON.stringify(distinctIds);
  const isSent = distinctIds.length === distinctIdCount && text.length <= FORM_IDS_CHARACTERS_MAX;
  return isSent
    ? { distinctIds: text }
    : { shown: await sha256(JSON.stringify([distinctIdCount, ...distinctIds.toSorted()])) };
}

/** Returns the name of the checkbox that also blocks an id. */
const blockField = (id: string): string => `block ${id}`;

/** Shows what an erasure would do, and a form that requests it for exactly the ids shown. */
async function eraseForm(c: PageContext, form: Form, rejection?: PurserError) {
  const { distinctId } = parseForm(erasePersonInput, { distinctId: form.distinctId });
  const { output } = await erasePerson(c.var.ctx, {
    distinctId,
    dryRun: true,
    keepConsent: form.keepConsent === "yes",
  });
  const { distinctIds = [], distinctIdCount, ...counts } = output;
  const unverified = new Set(await findUnverifiedIds(c.var.ctx, distinctId));
  const shown = await shownFormFields(output);
  const blockable = shown.distinctIds === undefined ? [] : distinctIds.filter((id) => unverified.has(id));
  return confirmPage(
    c,
    {
      action: "people/erase",
      fields: { distinctId, ...shown },
      button: "Erase person",
      cancel: `people${queryString({ distinctId })}`,
      isDangerous: true,
      form,
      rejection,
      above: (
        <Card title="What would be erased">
          <p>
            {amountText(distinctIdCount)} {distinctIdCount === 1 ? "id" : "ids"}
            {distinctIdCount > distinctIds.length && `, of which these are the nearest`}:
          </p>
          <ul>
            {distinctIds.map((id) => (
              <li>
                <code>{id}</code>
                {unverified.has(id) && <span class="soft"> linked only by a publishable or relay key</span>}
              </li>
            ))}
          </ul>
          <CountsTable counts={counts} />
        </Card>
      ),
    },
    <>
      <p>
        {UNDO} An id that is linked only by a publishable or relay key may belong to another person: only mentions of it
        are erased, unless you block it too.
      </p>
      {blockable.map((id) => (
        <Check name={blockField(id)}>
          Block <code>{id}</code> too
        </Check>
      ))}
      <Choice label="Reason (kept in the receipt)" name="reason" options={[["", "none"], ...reasons()]} />
      <Check name="keepConsent">Keep the consent log, under a keyed hash in place of each id</Check>
      <Field label={`Type the id to confirm: ${distinctId}`} name="confirmation" required />
    </>,
  );
}

async function receiptPage(c: PageContext, erasureId: string, rejection?: PurserError) {
  const receipt = await readErasure(c.var.ctx, erasureId);
  const isRunning = receipt.status === "running";
  return page(
    c,
    { title: "Erasure", section: "people", rejection },
    <>
      <section class="card">
        <Facts
          of={[
            ["Erasure", <code>{receipt.erasureId}</code>],
            ["Status", isRunning ? "running: the cron continues every minute" : "completed"],
            ["Ids", amountText(receipt.distinctIdCount)],
            ["Reason", receipt.reason?.replaceAll("_", " ") ?? "none given"],
            ["Consent log", receipt.keepConsent ? "kept under a keyed hash" : "deleted"],
            ["By", receipt.by],
            ["Started (UTC)", timeText(receipt.startedAt)],
            ["Completed (UTC)", timeText(receipt.completedAt, "not yet")],
            [
              "Recoverable from the database's history until (UTC)",
              timeText(receipt.recoverableUntil, "not yet known"),
            ],
            ["Lifted (UTC)", timeText(receipt.liftedAt)],
          ]}
        />
        <CountsTable counts={receipt} />
        <p>{UNDO}</p>
        <p class="soft">This receipt contains no personal data. Print it for your records.</p>
      </section>
      {isRunning && (
        <p>
          <AppLink to={`people/erasures/${erasureId}`}>Refresh</AppLink>
        </p>
      )}
      {!isRunning && receipt.liftedAt === null && (
        <AppForm action={`people/erasures/${erasureId}/lift`} class="card" fields={{ erasureId }}>
          <SubmitButton text="Lift" kind="quiet" />
        </AppForm>
      )}
    </>,
  );
}

/**
 * Returns the ids whose hash the form carries. The erasure compares the hash again when it begins. If the person has more ids
 * than a page lists, compares their number. Throws `changed_meanwhile` if the person differs from the one that the form showed.
 */
async function requireShown(
  ctx: TenantCtx,
  { distinctId }: ErasePersonInput,
  shown: string,
): Promise<Pick<ErasePersonInput, "distinctIds" | "distinctIdCount">> {
  const { output } = await erasePerson(ctx, { distinctId, dryRun: true, keepConsent: false });
  if ((await shownFormFields(output)).shown !== shown) {
    throw new PurserError("changed_meanwhile", "The person's ids have changed. Check them, and confirm again.");
  }
  const { distinctIds = [], distinctIdCount } = output;
  return distinctIds.length === distinctIdCount ? { distinctIds } : { distinctIdCount };
}

/** Returns the ids that the form showed. Unreadable text counts as no ids and is rejected; it never means all the person's ids. */
function shownIds(form: Form): unknown {
  try {
    return JSON.parse(form.distinctIds ?? "");
  } catch {
    return [];
  }
}

/** Returns the shown ids that were chosen to be blocked. */
function blockedIds(form: Form): { readonly blockIds?: unknown[] } {
  const shown = shownIds(form);
  const blockIds = Array.isArray(shown) ? shown.filter((id) => form[blockField(String(id))] === "yes") : [];
  return blockIds.length === 0 ? {} : { blockIds };
}

async function erase(c: PageContext) {
  const { ctx, form } = c.var;
  const input = parseForm(erasePersonInput, {
    distinctId: form.distinctId,
    ...(form.shown === undefined ? { distinctIds: shownIds(form), ...blockedIds(form) } : {}),
    keepConsent: form.keepConsent === "yes",
    reason: textField(form, "reason"),
  });
  if (form.confirmation !== input.distinctId) {
    throw invalid("confirmation", "Nothing was erased: type the id exactly as it is shown.");
  }
  const shown = form.shown === undefined ? {} : await requireShown(ctx, input, form.shown);
  const { output } = await erasePerson(ctx, { ...input, ...shown });
  return receiptPath(output.erasureId ?? "");
}

async function lift(c: PageContext) {
  const erasureId = c.req.param("erasureId") ?? "";
  await liftErasure(c.var.ctx, erasureId);
  return receiptPath(erasureId);
}

const receiptPath = (erasureId: string): string => `people/erasures/${erasureId}`;

const showReceipt: ShowForm = (c, _form, rejection) => receiptPage(c, c.req.param("erasureId") ?? "", rejection);

export const eraseRoutes = askRoutes("/people/erase", eraseForm, erase)
  .get("/people/erasures/:erasureId", (c) => showReceipt(c, {}))
  .post("/people/erasures/:erasureId/lift", onSubmit(lift, showReceipt));
