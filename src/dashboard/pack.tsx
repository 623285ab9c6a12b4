import { createPackInput } from "../api/packs/create-pack.ts";
import { patchPackInput } from "../api/packs/update-pack.ts";
import { matchRule } from "../books/amounts/amount-fields.ts";
import { COUNTED_RECURRING_MAX, countRecurring } from "../books/recurring/recurring.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import { archivePack, patchPack, restorePack } from "../catalog/change-pack.ts";
import { createPack, testRules } from "../catalog/insert-pack.ts";
import { type PackOutput, presentPack, readPack } from "../catalog/pack.ts";
import { listAuditOfTarget } from "../catalog/search-audit.ts";
import type { PurserError } from "../errors.ts";
import { AppLink, LinkButton, pathIn } from "./app-link.tsx";
import { AuditTable } from "./audit.tsx";
import { Card, Facts, SubmitButton } from "./components.tsx";
import { askRoutes, confirmPage, formFields } from "./confirm.tsx";
import { catchRejection, createDashboardRoutes, type PageContext, parseForm, textField } from "./form.ts";
import { AppForm, onSubmit, type ShowForm } from "./form-card.tsx";
import { amountText, timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { blankPack, makeBody, makeDraft, type PackDraft, readDraft, ruleLists } from "./pack-draft.ts";
import { PackForm, type RuleTest } from "./pack-form.tsx";
import { Contents, PACK_NOTICES } from "./packs.tsx";

const noRuleTest: RuleTest = { event: "", model: "", verdicts: [] };

interface PackOutcome {
  readonly rejection?: PurserError | undefined;
  readonly ruleTest?: RuleTest;
}

const newPackPage = (c: PageContext, draft: PackDraft, { rejection, ruleTest = noRuleTest }: PackOutcome = {}) =>
  page(
    c,
    { title: "New pack", section: "packs", rejection },
    <PackForm packId={null} draft={draft} rejection={rejection} ruleTest={ruleTest} />,
  );

const readStored = async (c: PageContext, packId: string): Promise<PackOutput> =>
  presentPack(await readPack(c.var.root, c.var.appId, packId));

async function packPage(
  c: PageContext,
  pack: PackOutput,
  draft: PackDraft,
  { rejection, ruleTest = noRuleTest }: PackOutcome = {},
) {
  const { packId } = pack;
  const [history, recurring] = await Promise.all([
    listAuditOfTarget(c.var.root, c.var.appId, [packId], "pack.").then(nameActors(c.var.root)),
    countRecurring(c.var.ctx, packId),
  ]);
  return page(
    c,
    {
      title: `Pack ${pack.packName}`,
      section: "packs",
      rejection,
      notice: PACK_NOTICES[c.req.query("notice") ?? ""],
      actions: pack.archivedAt === null ? <LinkButton text="Archive pack" to={`packs/${packId}/archive`} /> : undefined,
    },
    <>
      {pack.archivedAt !== null && <Archived pack={pack} />}
      {rejection?.code === "changed_meanwhile" && <Stored pack={pack} />}
      <PackForm packId={packId} draft={draft} version={pack.version} rejection={rejection} ruleTest={ruleTest} />
      <Card title="History" id="history">
        <p class="soft">
          Version {pack.version}. <code>{packId}</code>
        </p>
        <p class="soft">
          {recurring > COUNTED_RECURRING_MAX ? `More than ${amountText(COUNTED_RECURRING_MAX)}` : amountText(recurring)}{" "}
          active {recurring === 1 ? "recurring grant grants" : "recurring grants grant"} it every period in {c.var.mode}{" "}
          mode.
        </p>
        <AuditTable label="History" entries={history} empty="No changes." />
      </Card>
    </>,
  );
}

const Archived = ({ pack }: { pack: PackOutput }) => (
  <AppForm action={`packs/${pack.packId}/restore`} class="card">
    <div class="row">
      <p>
        <b>Archived</b> {timeText(pack.archivedAt)} (UTC). It cannot be granted, and its name can be used again.
      </p>
      <SubmitButton text="Restore pack" />
    </div>
  </AppForm>
);

/** Shows the pack's current state beside a form that was rejected because the pack changed. */
const Stored = ({ pack }: { pack: PackOutput }) => (
  <section class="card" aria-label="The stored version">
    <h2>As it is now: version {pack.version}</h2>
    <Facts
      of={[
        ["Name", pack.packName],
        ["Expires after", pack.defaultExpiryDays === null ? "never" : `${pack.defaultExpiryDays} days`],
        ["Contents", <Contents pack={pack} />],
      ]}
    />
    <p class="soft">
      Your version is in the form below, and is not saved. Saving it replaces version {pack.version}. The history says
      who changed it.
    </p>
  </section>
);

/** Returns whether the form's rules cover the event that is being tried. */
function runRuleTest(c: PageContext, draft: PackDraft): RuleTest {
  const { form } = c.var;
  const tried = { event: textField(form, "try.event"), model: textField(form, "try.model") };
  const { event = "", model } = tried.event === undefined ? tried : parseForm(matchRule, tried);
  const verdicts = ruleLists(draft).map(({ name, rules }) => ({ name, ...testRules(rules, event, model) }));
  return { event, model: model ?? "", verdicts: event === "" ? [] : verdicts };
}

async function answerRuleTest(c: PageContext, packId: string | null) {
  const draft = readDraft(c.var.form);
  const ruleTest = runRuleTest(c, draft);
  if (c.req.header("accept") === "application/json") return c.json(ruleTest);
  return packId === null
    ? newPackPage(c, draft, { ruleTest })
    : packPage(c, await readStored(c, packId), draft, { ruleTest });
}

/** Asks for confirmation before a pack with items becomes a pack without. */
const confirmNoItems = (c: PageContext, packId: string, pack: PackOutput) =>
  confirmPage(
    c,
    {
      title: "Remove all items from the pack",
      fields: formFields(c.var.form),
      button: "Save pack",
      cancel: `packs/${packId}`,
      warnings: [
        "From now on each grant names a quantity, and issues one balance of it. It issues none of these items.",
      ],
    },
    <>
      <p>
        <b>{pack.packName}</b> will have no items. Now it has:
      </p>
      <Contents pack={pack} />
    </>,
  );

async function savePack(c: PageContext, packId: string) {
  const { form, ctx } = c.var;
  const draft = readDraft(form);
  const pack = await readStored(c, packId);
  const takesAll = pack.items.length > 0 && draft.kind === "open-amount";
  if (takesAll && form.sure !== "yes") return confirmNoItems(c, packId, pack);
  const saved = await catchRejection(async () => {
    // A form without a version is rejected, because it could undo another person's change.
    const version = Number(form.version ?? 0);
    const input = parseForm(patchPackInput, { ...makeBody(draft), version });
    return patchPack(c.var.admin, ctx.environment.appId, packId, input);
  });
  if (saved.rejection === undefined) return c.redirect(pathIn(c, `packs/${packId}?notice=saved`), 303);
  return packPage(c, await readStored(c, packId), draft, { rejection: saved.rejection });
}

async function askArchive(c: PageContext) {
  const { packId, packName } = await readStored(c, c.req.param("packId") ?? "");
  return confirmPage(
    c,
    { button: "Archive pack", cancel: `packs/${packId}`, isDangerous: true },
    <p>
      <b>{packName}</b> can no longer be granted, and its name can be used again. Existing balances are unchanged. It
      can be restored.
    </p>,
  );
}

const restoreRejected: ShowForm = (c, _form, rejection) =>
  page(
    c,
    { title: "Restore pack", section: "packs", rejection },
    <p>
      <AppLink to={`packs/${c.req.param("packId")}`}>Back to the pack</AppLink>: give it another name first.
    </p>,
  );

export const packRoutes = createDashboardRoutes()
  .get("/packs/new", (c) => newPackPage(c, blankPack))
  .post("/packs/new/try", (c) => answerRuleTest(c, null))
  .post(
    "/packs",
    onSubmit(
      async ({ var: { admin, appId, form } }) => {
        await createPack(admin, appId, parseForm(createPackInput, makeBody(readDraft(form))));
        return "packs?notice=created";
      },
      (c, form, rejection) => newPackPage(c, readDraft(form), { rejection }),
    ),
  )
  .get("/packs/:packId", async (c) => {
    const pack = await readStored(c, c.req.param("packId"));
    return packPage(c, pack, makeDraft(pack));
  })
  .post("/packs/:packId", (c) => savePack(c, c.req.param("packId")))
  .post("/packs/:packId/try", (c) => answerRuleTest(c, c.req.param("packId")))
  .route(
    "/",
    askRoutes("/packs/:packId/archive", askArchive, async (c) => {
      await archivePack(c.var.admin, c.var.appId, c.req.param("packId") ?? "");
      return "packs?notice=archived";
    }),
  )
  .post(
    "/packs/:packId/restore",
    onSubmit(async (c) => {
      const packId = c.req.param("packId") ?? "";
      await restorePack(c.var.admin, c.var.appId, packId);
      return `packs/${packId}?notice=restored`;
    }, restoreRejected),
  );
