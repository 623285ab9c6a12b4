import type { Context } from "hono";
import { matchRule } from "../amounts/schemas.ts";
import type { PurserError } from "../errors.ts";
import { archivePack } from "../packs/archive.ts";
import { createPack } from "../packs/create.ts";
import { listPacks } from "../packs/list.ts";
import { presentPack, readPack } from "../packs/pack.ts";
import { patchPack } from "../packs/patch.ts";
import type { PackOutput } from "../packs/responses.ts";
import { createPackInput, patchPackInput } from "../packs/schemas.ts";
import { testRules } from "../packs/test-rules.ts";
import { Hidden, Table } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { catchRefusal, parseForm, textField } from "./form.ts";
import { amount, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";
import { blankPack, bodyOf, draftOf, type PackDraft, readDraft, ruleLists } from "./pack-draft.ts";
import { PackForm, type RuleTest } from "./pack-form.tsx";
import { Rules } from "./rules.tsx";

const SHOWN_MAX = 200;
const NOTICES: Readonly<Record<string, string>> = {
  created: "Pack created.",
  saved: "Pack saved. Existing balances are unchanged.",
  archived: "Pack archived. Its name can be used again.",
};

const Contents = ({ pack }: { pack: PackOutput }) =>
  pack.items.length === 0 ? (
    <>
      any quantity of {pack.unit} for <Rules matches={pack.matches ?? []} />
    </>
  ) : (
    pack.items.map((item) => (
      <div>
        {amount(item.amount)} {item.unit} for <Rules matches={item.matches} />
      </div>
    ))
  );

async function packsPage(c: Context<DashboardEnv>) {
  const { packs } = await listPacks(c.var.root, c.var.ctx.environment.appId, SHOWN_MAX);
  const table = (label: string, some: readonly PackOutput[], empty: string) => (
    <Table
      label={label}
      head={["Name", "Contents", "Expires after", "Pack id", "Created (UTC)"]}
      empty={empty}
      rows={some.map((pack) => [
        <a href={pathIn(c, `packs/${pack.packId}`)}>{pack.packName}</a>,
        <Contents pack={pack} />,
        pack.defaultExpiryDays === null ? "never" : `${pack.defaultExpiryDays} days`,
        <code>{pack.packId}</code>,
        <span class="num">{time(pack.createdAt)}</span>,
      ])}
    />
  );
  const archived = packs.filter((pack) => pack.archivedAt !== null);
  return page(
    c,
    { title: "Credit packs", section: "packs", notice: NOTICES[c.req.query("notice") ?? ""] },
    <>
      <p>
        <a class="button" href={pathIn(c, "packs/new")}>
          New pack
        </a>{" "}
        <span class="soft">Packs are shared by live and test mode.</span>
      </p>
      <section class="card">
        {table(
          "Packs",
          packs.filter((pack) => pack.archivedAt === null),
          "No packs yet.",
        )}
        {packs.length === SHOWN_MAX && <p class="soft">Showing the first {SHOWN_MAX}.</p>}
      </section>
      {archived.length > 0 && (
        <section class="card">
          <h2>Archived</h2>
          {table("Archived packs", archived, "")}
        </section>
      )}
    </>,
  );
}

const noRuleTest: RuleTest = { event: "", model: "", verdicts: [] };

function formPage(
  c: Context<DashboardEnv>,
  packId: string | null,
  draft: PackDraft,
  outcome: { refusal?: PurserError | undefined; ruleTest?: RuleTest } = {},
) {
  const title = packId === null ? "New pack" : `Pack ${draft.packName}`;
  return page(
    c,
    { title, section: "packs", refusal: outcome.refusal, notice: NOTICES[c.req.query("notice") ?? ""] },
    <>
      <PackForm
        c={c}
        packId={packId}
        draft={draft}
        refusal={outcome.refusal}
        ruleTest={outcome.ruleTest ?? noRuleTest}
      />
      {packId !== null && (
        <form method="post" action={pathIn(c, `packs/${packId}/archive/confirm`)} class="card">
          <FormToken c={c} />
          <Hidden fields={{ packName: draft.packName }} />
          <button type="submit" class="quiet">
            Archive pack
          </button>{" "}
          <span class="soft">It can no longer be granted. Existing balances are unchanged.</span>
        </form>
      )}
    </>,
  );
}

/** What the form's rules say of the event that is being tried. */
function runRuleTest(c: Context<DashboardEnv>, draft: PackDraft): RuleTest {
  const { form } = c.var;
  const tried = { event: textField(form, "try.event"), model: textField(form, "try.model") };
  const { event = "", model } = tried.event === undefined ? tried : parseForm(matchRule, tried);
  const verdicts = ruleLists(draft).map(({ name, rules }) => ({ name, ...testRules(rules, event, model) }));
  return { event, model: model ?? "", verdicts: event === "" ? [] : verdicts };
}

function answerRuleTest(c: Context<DashboardEnv>, packId: string | null) {
  const draft = readDraft(c.var.form);
  const ruleTest = runRuleTest(c, draft);
  return c.req.header("accept") === "application/json"
    ? c.json(ruleTest)
    : formPage(c, packId, draft, { ruleTest: ruleTest });
}

export const packsRoutes = () =>
  createDashboardRoutes()
    .get("/packs", packsPage)
    .get("/packs/new", (c) => formPage(c, null, blankPack))
    .post("/packs/new/try", (c) => answerRuleTest(c, null))
    .post("/packs", async (c) => {
      const { appId } = c.var.ctx.environment;
      const draft = readDraft(c.var.form);
      const created = await catchRefusal(async () =>
        createPack(c.var.admin, appId, parseForm(createPackInput, bodyOf(draft))),
      );
      return created.refusal === undefined
        ? c.redirect(pathIn(c, "packs?notice=created"), 303)
        : formPage(c, null, draft, { refusal: created.refusal });
    })
    .get("/packs/:packId", async (c) => {
      const pack = presentPack(await readPack(c.var.root, c.var.ctx.environment.appId, c.req.param("packId")));
      return formPage(c, pack.packId, draftOf(pack));
    })
    .post("/packs/:packId", async (c) => {
      const packId = c.req.param("packId");
      const draft = readDraft(c.var.form);
      const saved = await catchRefusal(async () =>
        patchPack(c.var.admin, c.var.ctx.environment.appId, packId, parseForm(patchPackInput, bodyOf(draft))),
      );
      return saved.refusal === undefined
        ? c.redirect(pathIn(c, `packs/${packId}?notice=saved`), 303)
        : formPage(c, packId, draft, { refusal: saved.refusal });
    })
    .post("/packs/:packId/try", (c) => answerRuleTest(c, c.req.param("packId")))
    .post("/packs/:packId/archive/confirm", (c) =>
      page(
        c,
        { title: "Archive pack", section: "packs" },
        <form method="post" action={pathIn(c, `packs/${c.req.param("packId")}/archive`)} class="card">
          <FormToken c={c} />
          <p>
            <b>{c.var.form.packName}</b> can no longer be granted, and its name can be used again. Existing balances are
            unchanged.
          </p>
          <div class="row">
            <button type="submit" class="danger">
              Archive pack
            </button>
            <a class="button quiet" href={pathIn(c, `packs/${c.req.param("packId")}`)}>
              Cancel
            </a>
          </div>
        </form>,
      ),
    )
    .post("/packs/:packId/archive", async (c) => {
      await archivePack(c.var.admin, c.var.ctx.environment.appId, c.req.param("packId"));
      return c.redirect(pathIn(c, "packs?notice=archived"), 303);
    });
