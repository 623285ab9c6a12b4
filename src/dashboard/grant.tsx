import type { Context } from "hono";
import { grantPack } from "../books/credits/grant.ts";
import { previewGrant } from "../books/credits/preview.ts";
import { grantInput } from "../books/credits/schemas.ts";
import { readUserTotals } from "../books/credits/user-totals.ts";
import { listPacks } from "../catalog/packs/list.ts";
import { invalid, type PurserError } from "../errors.ts";
import { callVerb } from "../http/call-verb.ts";
import { Choice, Field, Hidden, LongText } from "./components.tsx";
import {
  Confirm,
  doubtsOfAmount,
  doubtsOfId,
  formFields,
  redirectAfter,
  requireReason,
  SHOWN_MAX,
  userPath,
} from "./confirm.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, type Form, numberField, parseForm, textField, timeField } from "./form.ts";
import { query } from "./format.ts";
import { IssuedFacts } from "./issued.tsx";
import { page, pathIn } from "./layout.tsx";

const SOURCES = ["manual", "grant", "purchase", "refund"] as const;

async function grantForm(c: Context<DashboardEnv>, form: Form, refusal?: PurserError) {
  const { root } = c.var;
  const { packs } = await listPacks(root, c.var.ctx.environment.appId, SHOWN_MAX);
  const offered = packs.filter((pack) => pack.archivedAt === null);
  if (offered.length === 0 && refusal === undefined) return noPacksPage(c);
  return page(
    c,
    { title: "Grant credits", section: "users", refusal },
    <form method="get" action={pathIn(c, "users/grant/confirm")} class="card">
      {/* The same confirmation, gone back to and sent again, grants nothing more. */}
      <Hidden fields={{ ref: form.ref ?? root.newId("dashboard:") }} />
      <div class="row">
        <Field label="User id" name="userId" value={form.userId} required refusal={refusal} />
        <Choice
          label="Pack"
          name="packId"
          value={form.packId}
          options={offered.map((pack) => [
            pack.packId,
            pack.items.length === 0 ? `${pack.packName} (any quantity of ${pack.unit})` : pack.packName,
          ])}
          refusal={refusal}
        />
        <Field
          label="Quantity"
          name="quantity"
          value={form.quantity}
          hint="only for packs without items"
          refusal={refusal}
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
        <Field
          label="Time (UTC)"
          name="expiresAt"
          type="datetime-local"
          value={form.expiresAt}
          step="1"
          refusal={refusal}
        />
        <Choice
          label="Source"
          name="source"
          value={form.source ?? "manual"}
          options={SOURCES.map((each) => [each, each] as const)}
          refusal={refusal}
        />
      </div>
      <LongText label="Reason (kept in the ledger)" name="notes" value={form.notes} required refusal={refusal} />
      <p>
        <button type="submit">Continue</button>
      </p>
    </form>,
  );
}

const noPacksPage = (c: Context<DashboardEnv>) =>
  page(
    c,
    { title: "Grant credits", section: "users" },
    <p class="card">
      There is no pack to grant. <a href={pathIn(c, "packs/new")}>Create a pack</a> first: it says what a grant issues,
      and what it pays for.
    </p>,
  );

function expiryOf(form: Form): string | null | undefined {
  if (form.expiry === "never") return null;
  const at = timeField(form, "expiresAt");
  if (form.expiry === "at") return at ?? "";
  if (at !== undefined)
    throw invalid("expiresAt", "is given, and would be ignored: choose “at the time given”, or clear it");
  return undefined;
}

function readGrant(form: Form) {
  return parseForm(grantInput, {
    userId: form.userId,
    packId: form.packId,
    quantity: numberField(form, "quantity"),
    expiresAt: expiryOf(form),
    source: form.source,
    notes: requireReason(form, "notes"),
    externalRef: textField(form, "ref"),
  });
}

async function confirmGrant(c: Context<DashboardEnv>, form: Form, refused?: PurserError) {
  const { ctx, root } = c.var;
  const read = await catchRefusal(async () => {
    const input = readGrant(form);
    return { input, plan: await previewGrant(ctx, input), totals: await readUserTotals(ctx, input.userId) };
  });
  if (read.result === undefined) return grantForm(c, form, read.refusal);
  const { input, plan, totals } = read.result;
  return page(
    c,
    { title: "Confirm grant", section: "users", refusal: refused },
    <Confirm
      c={c}
      action="users/grant"
      fields={{ ...formFields(form), ref: form.ref ?? root.newId("dashboard:") }}
      button="Grant credits"
      cancel={userPath(form.userId)}
      change={`users/grant${query(formFields(form))}`}
      doubts={[...doubtsOfId(input.userId), ...plan.amounts.flatMap((each) => doubtsOfAmount(each.unit, each.amount))]}
    >
      <dl class="facts">
        <dt>User</dt>
        <dd>{input.userId}</dd>
        <IssuedFacts plan={plan} totals={totals} quantity={form.quantity} />
        <dt>Reason</dt>
        <dd>{form.notes}</dd>
      </dl>
    </Confirm>,
  );
}

export const grantRoutes = () =>
  createDashboardRoutes()
    .get("/users/grant", (c) => grantForm(c, c.req.query()))
    .get("/users/grant/confirm", (c) => confirmGrant(c, c.req.query()))
    .post("/users/grant", (c) =>
      redirectAfter(
        c,
        async () =>
          (await callVerb(c, (ctx) => grantPack(ctx, readGrant(c.var.form)))).replayed ? "granted-before" : "granted",
        (refusal) => (refusal.param === "sure" ? confirmGrant : grantForm)(c, c.var.form, refusal),
      ),
    );
