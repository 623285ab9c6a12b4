import type { Context } from "hono";
import { grantPack } from "../credits/grant.ts";
import { grantInput } from "../credits/schemas.ts";
import type { PurserError } from "../errors.ts";
import { listPacks } from "../packs/list.ts";
import type { PackOutput } from "../packs/responses.ts";
import { Choice, Field, LongText } from "./components.tsx";
import { Confirm, formFields, redirectAfter, requireReason, SHOWN_MAX } from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, numberField, parseForm, textField, timeField } from "./form.ts";
import { amount, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";

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
          hint="only for packs without items"
          isBad={refusal?.param === "quantity"}
        />
      </div>
      <div class="row">
        <Choice
          label="Expires"
          name="expiry"
          value={form.expiry ?? "default"}
          options={[
            ["default", "pack default"],
            ["never", "never"],
            ["at", "at the time given"],
          ]}
        />
        <Field label="Time (UTC)" name="expiresAt" type="datetime-local" value={form.expiresAt} step="1" />
        <Choice
          label="Source"
          name="source"
          value={form.source ?? "manual"}
          options={grantInput.shape.source.def.innerType.options.map((each) => [each, each] as const)}
        />
      </div>
      <LongText label="Reason (kept in the ledger)" name="notes" value={form.notes} required />
      <p>
        <button type="submit">Continue</button>
      </p>
    </form>,
  );
}

const EXPIRIES: Readonly<Record<string, (form: Form) => string | null | undefined>> = {
  never: () => null,
  at: (form) => timeField(form, "expiresAt") ?? "",
};

const EXPIRY_TEXTS: Readonly<Record<string, (form: Form) => string>> = {
  never: () => "never",
  at: (form) => `${time(form.expiresAt ?? "")} UTC`,
};

function readGrant(form: Form) {
  return parseForm(grantInput, {
    userId: form.userId,
    packId: form.packId,
    quantity: numberField(form, "quantity"),
    expiresAt: EXPIRIES[form.expiry ?? ""]?.(form),
    source: form.source,
    notes: requireReason(form, "notes"),
    // The confirmation page creates it, so that a form that is sent twice grants once.
    externalRef: textField(form, "externalRef"),
  });
}

const creditsOf = (pack: PackOutput | undefined, form: Form): string =>
  pack === undefined || pack.items.length === 0
    ? `${form.quantity || "no"} ${pack?.unit ?? ""}`
    : pack.items.map((item) => `${amount(item.amount)} ${item.unit}`).join(", ");

async function confirmGrant(c: Context<DashboardEnv>) {
  const { form, root } = c.var;
  const read = await catchRefusal(async () => readGrant(form));
  if (read.refusal !== undefined) return grantForm(c, form, read.refusal);
  const { packs } = await listPacks(root, c.var.ctx.environment.appId, SHOWN_MAX);
  const pack = packs.find((each) => each.packId === form.packId);
  const fields = { ...formFields(form), externalRef: root.newId("dashboard:") };
  return page(
    c,
    { title: "Confirm grant", section: "users" },
    <Confirm c={c} action="users/grant" fields={fields} button="Grant credits">
      <dl class="facts">
        <dt>User</dt>
        <dd>{form.userId}</dd>
        <dt>Pack</dt>
        <dd>{pack?.packName ?? form.packId}</dd>
        <dt>Credits issued</dt>
        <dd>{creditsOf(pack, form)}</dd>
        <dt>Expires</dt>
        <dd>{EXPIRY_TEXTS[form.expiry ?? ""]?.(form) ?? "pack default"}</dd>
        <dt>Reason</dt>
        <dd>{form.notes}</dd>
      </dl>
    </Confirm>,
  );
}

export const grantRoutes = () =>
  createDashboardRoutes()
    .get("/users/grant", (c) => grantForm(c, c.req.query()))
    .post("/users/grant/confirm", confirmGrant)
    .post("/users/grant", (c) =>
      redirectAfter(
        c,
        "granted",
        async () => grantPack(c.var.ctx, readGrant(c.var.form)),
        (refusal) => grantForm(c, c.var.form, refusal),
      ),
    );
