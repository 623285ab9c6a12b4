import { setEndUserAuthInput } from "../api/apps/set-end-user-auth.ts";
import { createKeyInput } from "../api/keys/create-key.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import { readEndUserAuth, readEndUserSecret, setEndUserAuth, type TokenTest, testUserToken } from "../catalog/apps.ts";
import { changeIfLatest } from "../catalog/audit.ts";
import { listAudit } from "../catalog/audit-page.ts";
import { type CreateKeyOutput, createKey, type KeyOutput, listKeys, readKeyOfApp, revokeKey } from "../catalog/keys.ts";
import { listAuditOfTarget } from "../catalog/search-audit.ts";
import { invalid, type PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { LinkButton } from "./app-link.tsx";
import { codeColumn, fieldColumn, realTimeColumn, textColumn } from "./columns.tsx";
import { Facts, Id, SecretCard, Tag } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Choice, Field } from "./fields.tsx";
import { createDashboardRoutes, type Form, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard, onSubmit, type ShowForm } from "./form-card.tsx";
import { timeText } from "./format.tsx";
import { page } from "./layout.tsx";
import { listPage, listRoutes, type Resource } from "./resource.tsx";
import { keepOnce, readRandom, takeOnce } from "./session.tsx";
import { readTokenSetting, TokenSetting, TokenTester } from "./token-setting.tsx";

interface KeysPageOptions {
  /** The form that was rejected. */
  readonly form?: Form;
  readonly test?: TokenTest | undefined;
  readonly rejection?: PurserError | undefined;
}

type ListedKey = KeyOutput & { readonly creator: string };

const keysList: Resource<ListedKey> = {
  path: "keys",
  title: "Application and keys",
  section: "keys",
  label: "Keys",
  about: (c) => `The keys of ${c.var.mode} mode.`,
  columns: [
    codeColumn("hint", "Key"),
    textColumn("kind", "Kind"),
    textColumn("name", "Name"),
    realTimeColumn("createdAt", "Created"),
    textColumn("creator", "By"),
    fieldColumn("lastUsedOn", "Last used", ({ lastUsedOn }) => <span class="num">{lastUsedOn ?? "not yet"}</span>),
    fieldColumn("revokedAt", "Status", ({ keyId, hint, revokedAt }) =>
      revokedAt === null ? (
        <LinkButton text="Revoke" kind="small danger" to="keys/revoke" fields={{ keyId }} label={`Revoke ${hint}`} />
      ) : (
        <Tag kind="revoked">revoked {timeText(revokedAt)}</Tag>
      ),
    ),
  ],
  read: (c) => {
    const { root, appId, mode } = c.var;
    return async (page) => {
      const { keys, nextCursor } = await listKeys(root, appId, page, mode);
      const ids = keys.map(({ keyId }) => keyId);
      const entries = await listAuditOfTarget(root, appId, ids, "key.created");
      const creators = new Map((await nameActors(root)(entries)).map(({ target, by }) => [target, by]));
      return { rows: keys.map((key) => ({ ...key, creator: creators.get(key.keyId) ?? "" })), nextCursor };
    };
  },
  empty: "No keys yet.",
  words: ["First keys", "More keys"],
  notices: {
    app: "Application created. Create its keys below.",
    created: "Key created.",
    revoked: "Key revoked. It no longer works: for writes from now on, for reads within seconds.",
    setting: "Setting saved. It takes effect now, and for reads within seconds.",
  },
};

async function keysPage(c: PageContext, { form = {}, test, rejection }: KeysPageOptions = {}) {
  const { root, appId, mode } = c.var;
  const { setting } = await readEndUserAuth(root, appId, mode);
  const created = await takeOnce<CreateKeyOutput>(c, "key");
  const above = () => (
    <>
      <SecretCard title="New key" label={`${created?.kind} key, ${created?.mode} mode`} secret={created?.key} />
      <section class="card">
        <Facts
          of={[
            ["Application", c.var.appName],
            ["Application id", <Id id={appId} />],
            ["Database", <code>{databaseOf(c)}</code>],
          ]}
        />
      </section>
    </>
  );
  const below = () => (
    <>
      <FormCard
        action="keys"
        title="Create a key"
        about="A relay key is for a server that forwards other people's data: a reverse proxy, a customer-data platform, a server that takes ids from requests. It only sends analytics. Purser trusts these data no more than those of a page."
        form={form}
        rejection={rejection}
        once
        button="Create key"
      >
        <Choice label="New key" name="kind" options={KIND_CHOICES} />
        <Field label="Name (optional)" name="name" placeholder="Backend" />
      </FormCard>
      <TokenSetting setting={setting} form={form} rejection={rejection} />
      <TokenTester test={test} token={form.token} />
    </>
  );
  return listPage(c, { ...keysList, above, below }, rejection);
}

const KIND_CHOICES = [
  ["secret", "secret: for your backend"],
  ["publishable", "publishable: for browsers"],
  ["relay", "relay: for a proxy or a customer-data platform"],
] as const;

const databaseOf = ({ var: { ctx, root } }: PageContext) =>
  root.databases.find(({ index }) => index === ctx.environment.database)?.name ?? "DB";

/** Throws if verification stays off although the form says how to verify. */
async function assertNothingIgnored({ var: { form, root, appId, mode } }: PageContext) {
  const { setting } = await readEndUserAuth(root, appId, mode);
  const typed = ["secret", "url"].find((name) => textField(form, name) !== undefined);
  if (setting === null && typed !== undefined) {
    throw invalid(`setting.${typed}`, "is given, and would be ignored: choose how tokens are verified, or clear it");
  }
}

/** Saves the setting of the form. An empty secret field keeps the stored secret, unless it changes before the setting is written. */
async function saveSetting(c: PageContext) {
  const { form, root, admin, appId, mode } = c.var;
  if (form.type === "none") await assertNothingIgnored(c);
  const save = (admin: AdminCtx, given: Form) =>
    setEndUserAuth(admin, appId, parseForm(setEndUserAuthInput, { mode, setting: readTokenSetting(given) }));
  if (form.type !== "hs256" || (form.secret ?? "") !== "") return save(admin, form);
  const { newestSeq } = await listAudit(root, appId, { limit: 1 });
  return changeIfLatest(admin, newestSeq, CHANGED, async (guarded) => {
    const secret = await readEndUserSecret(root, appId, mode);
    return save(guarded, secret === null ? form : { ...form, secret });
  });
}

const CHANGED = { message: "The application was changed at this moment. Save the setting again.", param: "setting" };

/** Asks for confirmation before a key is revoked, and says whether it is in use. */
async function askRevokeKey(c: PageContext, { keyId = "" }: Form) {
  const key = await readKeyOfApp(c.var.root, c.var.appId, keyId);
  if (key.revokedAt !== null) {
    return page(c, { title: "Revoke key", section: "keys" }, <p class="card">This key is already revoked.</p>);
  }
  return confirmPage(
    c,
    {
      fields: { keyId },
      button: "Revoke key",
      cancel: "keys",
      isDangerous: true,
      facts: [
        [
          "Key",
          <>
            <code>{key.hint}</code>, {key.kind}, {key.mode} mode
          </>,
        ],
        ["Name", key.name ?? "none"],
        ["Created (UTC)", timeText(key.createdAt)],
        ["Last used (UTC)", <b>{key.lastUsedOn ?? "not yet"}</b>],
      ],
    },
    "It stops working: for writes at once, for reads within seconds. This cannot be undone.",
  );
}

const showKeys: ShowForm = (c, form, rejection) => keysPage(c, { form, rejection });

export const keysRoutes = createDashboardRoutes()
  .get("/keys", (c) => keysPage(c))
  .route("/", listRoutes(keysList))
  .post(
    "/keys",
    onSubmit(async (c) => {
      const { form, admin, appId, mode } = c.var;
      const input = parseForm(createKeyInput, { kind: form.kind, mode, name: textField(form, "name") });
      const random = await readRandom(c, form.nonce ?? admin.newId(""));
      await keepOnce(c, "key", await createKey(admin, appId, input, random));
      return "keys?notice=created";
    }, showKeys),
  )
  .route(
    "/",
    askRoutes(
      "/keys/revoke",
      askRevokeKey,
      async ({ var: { admin, appId, form } }) => {
        await revokeKey(admin, appId, form.keyId ?? "");
        return "keys?notice=revoked";
      },
      (c, _form, rejection) => keysPage(c, { rejection }),
    ),
  )
  .post(
    "/end-user-auth",
    onSubmit(async (c) => {
      await saveSetting(c);
      return "keys?notice=setting";
    }, showKeys),
  )
  .post("/test-token", async (c) => {
    const { root, appId, mode, form } = c.var;
    const token = (form.token ?? "").trim();
    return keysPage(c, { form: { token }, test: await testUserToken(root, appId, mode, token) });
  });
