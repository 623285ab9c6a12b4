import { useContext } from "hono/jsx";
import { grantInput } from "../api/credits/grant-credits.ts";
import { exactAmount } from "../books/amounts/amount.ts";
import { grantPack, previewGrant } from "../books/credits/grant.ts";
import { readUserTotals } from "../books/credits/read-balance.ts";
import { listPacks, type PackOutput } from "../catalog/pack.ts";
import { invalid, type PurserError } from "../errors.ts";
import { callVerb } from "../http/factory.ts";
import { AppLink } from "./app-link.tsx";
import type { ShownFact } from "./components.tsx";
import { confirmPage, ReasonField, requireReason, stepRoutes, warnAboutAmount, warnAboutId } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { type Form, numberField, type PageContext, parseForm, textField, timeField } from "./form.ts";
import { FormCard } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { toUser, userPath } from "./links.tsx";
import { SHOWN_PACKS_MAX } from "./packs.tsx";
import { AmountList, BeforeAfter, UnitsContext, unitText } from "./unit-amount.tsx";

const EXPIRY_CHOICES = [["default", "pack default"], "never", ["at", "at the time given"]] as const;
const GRANT_SOURCES = ["manual", "grant", "purchase", "refund"] as const;

/** Returns the packs that can be granted. */
export async function listOfferedPacks({ var: { ctx, root } }: PageContext): Promise<readonly PackOutput[]> {
  const { packs } = await listPacks(root, ctx.environment.appId, SHOWN_PACKS_MAX);
  return packs.filter(({ archivedAt }) => archivedAt === null);
}

interface GrantFieldsProps {
  readonly packs: readonly PackOutput[];
  readonly quantityHint?: string;
}

/** The fields of every form that grants to a user: the user, the pack and the quantity. */
export const GrantFields = (props: GrantFieldsProps) => (
  <>
    <Field label="User id" name="userId" />
    <PackFields {...props} />
  </>
);

/** The fields of every form that grants: the pack and the quantity. */
export const PackFields = ({ packs, quantityHint = "only for packs without items" }: GrantFieldsProps) => {
  const units = useContext(UnitsContext);
  return (
    <>
      <Choice
        label="Pack"
        name="packId"
        options={packs.map(({ packId, packName, items, unit }) => [
          packId,
          items.length === 0 ? `${packName} (any quantity of ${unitText(units, unit ?? "")})` : packName,
        ])}
      />
      <Field label="Quantity" name="quantity" hint={quantityHint} />
    </>
  );
};

async function grantForm(c: PageContext, form: Form, rejection?: PurserError) {
  const offered = await listOfferedPacks(c);
  if (offered.length === 0 && rejection === undefined) return noPacksPage(c);
  return page(
    c,
    { title: "Grant credits", section: "users", rejection },
    <FormCard
      method="get"
      action="users/grant/confirm"
      form={{ expiry: "default", source: "manual", ...form }}
      rejection={rejection}
      schema={grantInput}
      // Submitting the same confirmation twice grants once.
      fields={{ ref: form.ref ?? c.var.root.newId("dashboard:") }}
      button="Continue"
    >
      <GrantFields packs={offered} />
      <Choice label="Expires" name="expiry" options={EXPIRY_CHOICES} />
      <Field label="Time (UTC)" name="expiresAt" type="datetime-local" step="1" />
      <Choice label="Source" name="source" options={GRANT_SOURCES} />
      <ReasonField name="notes" />
    </FormCard>,
  );
}

const noPacksPage = (c: PageContext) =>
  page(
    c,
    { title: "Grant credits", section: "users" },
    <p class="card">
      There is no pack to grant. <AppLink to="packs/new">Create a pack</AppLink> first: it defines what a grant issues,
      and which events the credits pay for.
    </p>,
  );

function readExpiry(form: Form): string | null | undefined {
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
    expiresAt: readExpiry(form),
    source: form.source,
    notes: requireReason(form, "notes"),
    externalRef: textField(form, "ref"),
  });
}

async function confirmGrant(c: PageContext, form: Form, rejection?: PurserError) {
  const { ctx, root } = c.var;
  const input = readGrant(form);
  const [plan, totals, warnings] = await Promise.all([
    previewGrant(ctx, input),
    readUserTotals(ctx, input.userId),
    warnAboutId(ctx, input.userId),
  ]);
  return confirmPage(c, {
    title: "Confirm grant",
    action: "users/grant",
    typed: { ...form, ref: form.ref ?? root.newId("dashboard:") },
    button: "Grant credits",
    cancel: userPath(form.userId),
    warnings: [...warnings, ...plan.amounts.flatMap((each) => warnAboutAmount(each.unit, each.amount))],
    rejection,
    facts: [
      ["User", form.userId],
      ...(plan.isReplay
        ? ([
            ["Pack", plan.packName],
            ["Credits issued", "None: this pack was already granted under this reference."],
          ] as const)
        : issuedFacts({ plan, totals, quantity: form.quantity })),
      ["Reason", form.notes],
    ],
  });
}

async function submitGrant(c: PageContext) {
  const { replayed } = await callVerb(c, (ctx) => grantPack(ctx, readGrant(c.var.form)));
  return toUser(c.var.form, replayed ? "granted-before" : "granted");
}

export const grantRoutes = stepRoutes("/users/grant", { form: grantForm, confirm: confirmGrant, act: submitGrant });

interface IssuedProps {
  readonly plan: Omit<Awaited<ReturnType<typeof previewGrant>>, "isReplay">;
  readonly totals: {
    readonly units: readonly { readonly unit: string; readonly remainingMinor: bigint }[];
    readonly isPartial: boolean;
  };
  /** The quantity as it was typed. */
  readonly quantity: string | undefined;
}

/** Shows the totals that a user has and would have after a grant, of each unit that it issues. */
export const TotalAfter = ({ plan, totals }: Pick<IssuedProps, "plan" | "totals">) => (
  <>
    {[...Map.groupBy(plan.amounts, ({ unit }) => unit)].map(([unit, issued]) => {
      const minor = issued.reduce((sum, each) => sum + BigInt(each.amountMinor), 0n);
      const before = totals.units.find((each) => each.unit === unit)?.remainingMinor ?? 0n;
      return (
        <div>
          <BeforeAfter from={exactAmount(unit, before)} to={exactAmount(unit, before + minor)} unit={unit} />
          {totals.isPartial && " (at least: the user has too many balances to add up)"}
        </div>
      );
    })}
  </>
);

/** Returns, for a confirmation, the balances that a grant would issue and the totals that the user would then have. */
export function issuedFacts({ plan, totals, quantity }: IssuedProps): readonly ShownFact[] {
  return [
    ["Pack", plan.packName],
    [
      "Credits issued",
      <b>
        <AmountList of={plan.amounts} />
      </b>,
    ],
    ["The user's total afterwards", <TotalAfter plan={plan} totals={totals} />],
    plan.ignoresQuantity && ["Ignored", `The quantity ${quantity}: this pack issues the amounts of its items.`],
    ["Expires (UTC)", timeText(plan.expiresAt)],
  ];
}
