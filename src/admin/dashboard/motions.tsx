import type { Context } from "hono";
import type { Child } from "hono/jsx";
import { adjust } from "../../credits/adjust.ts";
import { grant } from "../../credits/grant.ts";
import { holdings } from "../../credits/holdings.ts";
import { revoke } from "../../credits/revoke.ts";
import { adjustInput, grantInput, revokeInput } from "../../credits/schemas.ts";
import { invalid, type PurserError } from "../../errors.ts";
import { listPacks } from "../../packs/list.ts";
import type { PackOutput } from "../../packs/schemas.ts";
import { Choice, Field, Hidden, LongText } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { attempt, type Form, filled, moment, numeric, parse } from "./form.ts";
import { amount, query, signed, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";

const SHOWN_MAX = 200;

const userPath = (c: Context<DashboardEnv>, userId: string, told?: string) =>
  `${pathIn(c, "users")}${query({ userId, told })}`;

/** Sends back with what it did, or shows the form again with what was refused. */
async function finish(
  c: Context<DashboardEnv>,
  told: string,
  work: () => Promise<unknown>,
  again: (refusal: PurserError) => Response | Promise<Response>,
) {
  const done = await attempt(work);
  return done.refusal === undefined ? c.redirect(userPath(c, c.var.form.userId ?? "", told), 303) : again(done.refusal);
}

interface ConfirmProps {
  readonly c: Context<DashboardEnv>;
  readonly action: string;
  /** What is sent on, unchanged. */
  readonly fields: Readonly<Record<string, string>>;
  readonly button: string;
  readonly children: Child;
}

/** What is about to happen, to be confirmed. */
const Confirm = ({ c, action, fields, button, children }: ConfirmProps) => (
  <form method="post" action={pathIn(c, action)} class="card">
    <FormToken c={c} />
    <Hidden fields={fields} />
    {children}
    <div class="row">
      <button type="submit">{button}</button>
      <a class="button quiet" href={userPath(c, fields.userId ?? "")}>
        Leave it
      </a>
    </div>
  </form>
);

const withoutToken = ({ _form, ...fields }: Form): Record<string, string> => ({ ...fields });

/** A note that a person must give; the API leaves it free. */
function reasonOf(form: Form, name: string): string {
  const reason = filled(form, name);
  if (reason === undefined) throw invalid(name, "Say why: the ledger keeps it.");
  return reason;
}

// Grant

async function grantForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_MAX);
  const offered = packs.filter((pack) => pack.archivedAt === null);
  return page(
    c,
    { title: "Grant credits", section: "users", refusal },
    <form method="post" action={pathIn(c, "users/grant/confirm")} class="card">
      <FormToken c={c} />
      <div class="row">
        <Field label="User id" name="userId" value={form.userId} required isBad={refusal?.param === "userId"} />
        <Choice
          label="Pack"
          name="packId"
          value={form.packId}
          options={offered.map((pack) => [pack.packId, pack.packName] as const)}
        />
        <Field
          label="Quantity"
          name="quantity"
          value={form.quantity}
          hint="for packs without items"
          isBad={refusal?.param === "quantity"}
        />
      </div>
      <div class="row">
        <Choice
          label="Expires"
          name="expiry"
          value={form.expiry ?? "default"}
          options={[
            ["default", "as the pack says"],
            ["never", "never"],
            ["at", "at the time beside"],
          ]}
        />
        <Field label="Time (UTC)" name="expiresAt" type="datetime-local" value={form.expiresAt} step="1" />
        <Choice
          label="Source"
          name="source"
          value={form.source ?? "manual"}
          options={grantInput.shape.source.unwrap().options.map((each) => [each, each] as const)}
        />
      </div>
      <LongText label="Why? The ledger keeps it." name="notes" value={form.notes} required />
      <p>
        <button type="submit">Go on</button>
      </p>
    </form>,
  );
}

const EXPIRIES: Readonly<Record<string, (form: Form) => string | null | undefined>> = {
  never: () => null,
  at: (form) => moment(form, "expiresAt") ?? "",
};

const EXPIRY_WORDS: Readonly<Record<string, (form: Form) => string>> = {
  never: () => "never",
  at: (form) => `${time(form.expiresAt ?? "")} UTC`,
};

function readGrant(form: Form) {
  return parse(grantInput, {
    userId: form.userId,
    packId: form.packId,
    quantity: numeric(form, "quantity"),
    expiresAt: EXPIRIES[form.expiry ?? ""]?.(form),
    source: form.source,
    notes: reasonOf(form, "notes"),
    // Made with the page that confirms, so that sending it twice grants once.
    externalRef: filled(form, "externalRef"),
  });
}

const issued = (pack: PackOutput | undefined, form: Form): string =>
  pack === undefined || pack.items.length === 0
    ? `${form.quantity || "no"} ${pack?.unit ?? ""}`
    : pack.items.map((item) => `${amount(item.amount)} ${item.unit}`).join(", ");

async function confirmGrant(c: Context<DashboardEnv>) {
  const { form, root } = c.var;
  const read = await attempt(async () => readGrant(form));
  if (read.refusal !== undefined) return grantForm(c, form, read.refusal);
  const { packs } = await listPacks(root, c.var.ctx.environment.appId, SHOWN_MAX);
  const pack = packs.find((each) => each.packId === form.packId);
  const fields = { ...withoutToken(form), externalRef: root.newId("dashboard:") };
  return page(
    c,
    { title: "Grant this?", section: "users" },
    <Confirm c={c} action="users/grant" fields={fields} button="Grant it">
      <dl class="facts">
        <dt>To</dt>
        <dd>{form.userId}</dd>
        <dt>Pack</dt>
        <dd>{pack?.packName ?? form.packId}</dd>
        <dt>Issues</dt>
        <dd>{issued(pack, form)}</dd>
        <dt>Expires</dt>
        <dd>{EXPIRY_WORDS[form.expiry ?? ""]?.(form) ?? "as the pack says"}</dd>
        <dt>Why</dt>
        <dd>{form.notes}</dd>
      </dl>
    </Confirm>,
  );
}

// Adjust

async function heldBalance(c: Context<DashboardEnv>, form: Form) {
  const { balances } = await holdings(c.var.ctx, form.userId ?? "", SHOWN_MAX);
  return balances.find((balance) => balance.balanceId === form.balanceId);
}

async function adjustForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const balance = await heldBalance(c, form);
  return page(
    c,
    { title: "Adjust a balance", section: "users", refusal },
    <form method="post" action={pathIn(c, "users/adjust/confirm")} class="card">
      <FormToken c={c} />
      <Hidden fields={{ userId: form.userId ?? "", balanceId: form.balanceId ?? "" }} />
      {balance !== undefined && (
        <p>
          {balance.packName} of {form.userId}: {amount(balance.remaining)} {balance.unit} remain.
        </p>
      )}
      <div class="row">
        <Field
          label="Add, or with a minus take away"
          name="delta"
          value={form.delta}
          required
          placeholder="-10"
          isBad={refusal?.param === "delta"}
        />
      </div>
      <LongText label="Why? The ledger keeps it." name="note" value={form.note} required />
      <p>
        <button type="submit">Go on</button>
      </p>
    </form>,
  );
}

const readAdjustment = (form: Form) =>
  parse(adjustInput, { delta: numeric(form, "delta") ?? Number.NaN, note: reasonOf(form, "note") });

async function confirmAdjust(c: Context<DashboardEnv>) {
  const { form, root } = c.var;
  const read = await attempt(async () => readAdjustment(form));
  if (read.result === undefined) return adjustForm(c, form, read.refusal);
  const balance = await heldBalance(c, form);
  const fields = { ...withoutToken(form), adjustmentId: root.newId("adj_") };
  return page(
    c,
    { title: "Adjust it so?", section: "users" },
    <Confirm c={c} action="users/adjust" fields={fields} button="Adjust it">
      <dl class="facts">
        <dt>Balance</dt>
        <dd>{balance?.packName ?? form.balanceId}</dd>
        <dt>By</dt>
        <dd>
          {signed(read.result.delta)} {balance?.unit}
        </dd>
        <dt>Now</dt>
        <dd>{balance === undefined ? "not known" : `${amount(balance.remaining)} ${balance.unit}`}</dd>
        <dt>Why</dt>
        <dd>{read.result.note}</dd>
      </dl>
    </Confirm>,
  );
}

// Revoke: its form says all that there is to confirm.

async function revokeForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const balance = await heldBalance(c, form);
  const fields = { userId: form.userId ?? "", balanceId: form.balanceId ?? "" };
  return page(
    c,
    { title: "Revoke this balance?", section: "users", refusal },
    <Confirm c={c} action="users/revoke" fields={fields} button="Revoke it">
      <p>
        {balance === undefined
          ? form.balanceId
          : `${balance.packName}: the ${amount(balance.remaining)} ${balance.unit} that remain go to 0, for good. What was spent stays spent. It expires ${time(balance.expiresAt)}.`}
      </p>
      <LongText label="Why? The ledger keeps it." name="reason" value={form.reason} required />
    </Confirm>,
  );
}

export const motionRoutes = createDashboardRoutes()
  .get("/users/grant", (c) => grantForm(c, c.req.query()))
  .post("/users/grant/confirm", confirmGrant)
  .post("/users/grant", (c) =>
    finish(
      c,
      "granted",
      async () => grant(c.var.ctx, readGrant(c.var.form)),
      (refusal) => grantForm(c, c.var.form, refusal),
    ),
  )
  .get("/users/adjust", (c) => adjustForm(c, c.req.query()))
  .post("/users/adjust/confirm", confirmAdjust)
  .post("/users/adjust", (c) => {
    const { form, root } = c.var;
    const { balanceId = "", adjustmentId = root.newId("adj_") } = form;
    return finish(
      c,
      "adjusted",
      async () => adjust(root, { balanceId, adjustmentId, ...readAdjustment(form) }),
      (refusal) => adjustForm(c, form, refusal),
    );
  })
  .get("/users/revoke", (c) => revokeForm(c, c.req.query()))
  .post("/users/revoke", (c) => {
    const { form } = c.var;
    return finish(
      c,
      "revoked",
      async () =>
        revoke(c.var.ctx, parse(revokeInput, { balanceId: form.balanceId, reason: reasonOf(form, "reason") })),
      (refusal) => revokeForm(c, form, refusal),
    );
  });
