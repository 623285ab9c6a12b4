import type { Context } from "hono";
import { setEndUserAuthInput } from "../api/apps/set-end-user-auth.ts";
import { createKeyInput } from "../api/keys/create-key.ts";
import { nameActors } from "../catalog/admin-keys.ts";
import { readEndUserAuth, readEndUserSecret, setEndUserAuth, type TokenTest, testUserToken } from "../catalog/apps.ts";
import { type CreateKeyOutput, createKey, type KeyOutput, listKeys, readKeyOfApp, revokeKey } from "../catalog/keys.ts";
import { listAuditOf } from "../catalog/search-audit.ts";
import type { PurserError } from "../errors.ts";
import { CopyBox, Pager, Table, Tag } from "./components.tsx";
import { Confirm } from "./confirm.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, parseForm, textField } from "./form.ts";
import { queryString, Time, timeText } from "./format.tsx";
import { FormToken, page, pathIn } from "./layout.tsx";
import { keepOnce, readRandom, takeOnce } from "./session.tsx";
import { TokenSetting, TokenTester, tokenSettingOf } from "./token-setting.tsx";

const SHOWN_KEYS_MAX = 100;
const KEY_NOTICES: Readonly<Record<string, string>> = {
  app: "Application created. Create its keys below.",
  created: "Key created.",
  revoked: "Key revoked. It no longer works: for writes from now on, for reads within seconds.",
  setting: "Setting saved. It takes effect now, and for reads within seconds.",
};

interface KeysPageOptions {
  /** The form that was rejected. */
  readonly form?: Form;
  readonly test?: TokenTest | undefined;
  readonly rejection?: PurserError | undefined;
}

async function keysPage(c: Context<DashboardEnv>, options: KeysPageOptions = {}) {
  const { appId, mode } = c.var.ctx.environment;
  const input = { limit: SHOWN_KEYS_MAX, cursor: textField(c.req.query(), "cursor") };
  const { setting } = await readEndUserAuth(c.var.root, appId, mode);
  const listed = await listKeys(c.var.root, appId, input, mode);
  const creationEntries = await listAuditOf(
    c.var.root,
    appId,
    listed.keys.map(({ keyId }) => keyId),
    "key.created",
  );
  const creatorById = new Map((await nameActors(c.var.root)(creationEntries)).map(({ target, by }) => [target, by]));
  const notice = KEY_NOTICES[c.req.query("notice") ?? ""];
  const created = await takeOnce<CreateKeyOutput>(c, "key");
  return page(
    c,
    { title: "Application and keys", section: "keys", rejection: options.rejection, notice },
    <>
      {created !== null && (
        <section class="card">
          <h2>New key</h2>
          <p>Copy it now: it is not shown again.</p>
          <CopyBox label={`${created.kind} key, ${created.mode} mode`} value={created.key} />
        </section>
      )}
      <section class="card">
        <dl class="facts">
          <dt>Application</dt>
          <dd>{c.var.appName}</dd>
          <dt>Application id</dt>
          <dd>
            <code>{appId}</code>
          </dd>
          <dt>Database</dt>
          <dd>
            <code>{databaseOf(c)}</code>
          </dd>
        </dl>
      </section>
      <Keys
        c={c}
        keys={listed.keys}
        next={listed.nextCursor}
        creatorById={creatorById}
        form={options.form ?? {}}
        rejection={options.rejection}
      />
      <TokenSetting c={c} setting={setting} form={options.form ?? {}} rejection={options.rejection} />
      <TokenTester c={c} test={options.test} token={options.form?.token} />
    </>,
  );
}

const databaseOf = ({ var: { ctx, root } }: Context<DashboardEnv>) =>
  root.databases.find(({ index }) => index === ctx.environment.database)?.name ?? "DB";

/** Returns the setting of the form. An empty secret field keeps the stored secret. */
async function readSetting(c: Context<DashboardEnv>) {
  const { appId, mode } = c.var.ctx.environment;
  const { form, root } = c.var;
  const keeps = form.type === "hs256" && (form.secret ?? "") === "";
  const stored = keeps ? await readEndUserSecret(root, appId, mode) : null;
  return parseForm(setEndUserAuthInput, {
    mode,
    setting: tokenSettingOf(stored === null ? form : { ...form, secret: stored }),
  });
}

/** Asks for confirmation before a key is revoked, and says whether it is in use. */
async function confirmRevoke(c: Context<DashboardEnv>) {
  const key = await readKeyOfApp(c.var.root, c.var.ctx.environment.appId, c.req.query("keyId") ?? "");
  return page(
    c,
    { title: "Revoke key", section: "keys" },
    key.revokedAt !== null ? (
      <p class="card">This key is already revoked.</p>
    ) : (
      <Confirm c={c} action="keys/revoke" fields={{ keyId: key.keyId }} button="Revoke key" cancel="keys" isDangerous>
        <dl class="facts">
          <dt>Key</dt>
          <dd>
            <code>{key.hint}</code>, {key.kind}, {key.mode} mode
          </dd>
          <dt>Name</dt>
          <dd>{key.name ?? "none"}</dd>
          <dt>Created (UTC)</dt>
          <dd>{timeText(key.createdAt)}</dd>
          <dt>Last used (UTC)</dt>
          <dd>
            <b>{key.lastUsedOn ?? "not yet"}</b>
          </dd>
        </dl>
        <p>It stops working: for writes at once, for reads within seconds. This cannot be undone.</p>
      </Confirm>
    ),
  );
}

export const keysRoutes = createDashboardRoutes()
  .get("/keys", (c) => keysPage(c))
  .post("/keys", async (c) => {
    const { form, admin } = c.var;
    const { appId, mode } = c.var.ctx.environment;
    const created = await catchRejection(async () => {
      const input = parseForm(createKeyInput, { kind: form.kind, mode, name: textField(form, "name") });
      return createKey(admin, appId, input, await readRandom(c, form.nonce ?? admin.newId("")));
    });
    if (created.rejection !== undefined) return keysPage(c, { form, rejection: created.rejection });
    await keepOnce(c, "key", created.result);
    return c.redirect(pathIn(c, "keys?notice=created"), 303);
  })
  .get("/keys/confirm", confirmRevoke)
  .post("/keys/revoke", async (c) => {
    const { appId } = c.var.ctx.environment;
    const done = await catchRejection(() => revokeKey(c.var.admin, appId, c.var.form.keyId ?? ""));
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "keys?notice=revoked"), 303)
      : keysPage(c, { rejection: done.rejection });
  })
  .post("/end-user-auth", async (c) => {
    const { appId } = c.var.ctx.environment;
    const done = await catchRejection(async () => setEndUserAuth(c.var.admin, appId, await readSetting(c)));
    return done.rejection === undefined
      ? c.redirect(pathIn(c, "keys?notice=setting"), 303)
      : keysPage(c, { form: c.var.form, rejection: done.rejection });
  })
  .post("/test-token", async (c) => {
    const { appId, mode } = c.var.ctx.environment;
    const token = (c.var.form.token ?? "").trim();
    return keysPage(c, { form: { token }, test: await testUserToken(c.var.root, appId, mode, token) });
  });

interface KeysProps {
  readonly c: Context<DashboardEnv>;
  readonly keys: readonly KeyOutput[];
  readonly next: string | null;
  /** The name of each key's creator, by the key's id. */
  readonly creatorById: ReadonlyMap<string, string>;
  /** The form that was rejected, and why. */
  readonly form: Form;
  readonly rejection: PurserError | undefined;
}

/** Shows a page of the environment's keys, and the form for a new key. */
const Keys = ({ c, keys, next, creatorById, form, rejection }: KeysProps) => (
  <section class="card">
    <h2>{c.var.ctx.environment.mode === "live" ? "Live keys" : "Test keys"}</h2>
    <Table
      label="Keys"
      csv="keys"
      head={["Key", "Kind", "Name", "Created", "By", "Last used", "Status"]}
      empty="No keys yet."
      rows={keys.map((key) => [
        <code>{key.hint}</code>,
        key.kind,
        key.name ?? "",
        <Time at={key.createdAt} />,
        creatorById.get(key.keyId) ?? "",
        <span class="num">{key.lastUsedOn ?? "not yet"}</span>,
        key.revokedAt === null ? (
          <a
            class="button quiet danger small"
            href={`${pathIn(c, "keys/confirm")}${queryString({ keyId: key.keyId })}`}
            aria-label={`Revoke ${key.hint}`}
          >
            Revoke
          </a>
        ) : (
          <Tag kind="revoked">revoked {timeText(key.revokedAt)}</Tag>
        ),
      ])}
    />
    <Pager
      first={textField(c.req.query(), "cursor") === undefined ? null : pathIn(c, "keys")}
      next={next && `${pathIn(c, "keys")}${queryString({ cursor: next })}`}
      words={["First keys", "More keys"]}
    />
    <form method="post" action={pathIn(c, "keys")} class="row">
      <FormToken c={c} />
      {/* Submitting this form twice creates one key. */}
      <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
      <Choice
        label="New key"
        name="kind"
        value={form.kind}
        rejection={rejection}
        options={[
          ["secret", "secret: for your backend"],
          ["publishable", "publishable: for browsers"],
          ["relay", "relay: for a proxy or a customer-data platform"],
        ]}
      />
      <Field label="Name (optional)" name="name" value={form.name} placeholder="Backend" rejection={rejection} />
      <button type="submit">Create key</button>
    </form>
    <p class="soft">
      A relay key is for a server that forwards other people's data: a reverse proxy, a customer-data platform, a server
      that takes ids from requests. It only sends analytics. Purser trusts these data no more than those of a page.
    </p>
  </section>
);
