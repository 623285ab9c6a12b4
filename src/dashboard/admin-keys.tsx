import type { Context } from "hono";
import { createAdminKeyInput } from "../api/keys/create-admin-key.ts";
import { SCOPES } from "../auth/scopes.ts";
import {
  type AdminKeyOutput,
  type CreateAdminKeyOutput,
  createAdminKey,
  listAdminKeys,
  nameActors,
  revokeAdminKey,
} from "../catalog/admin-keys.ts";
import { NO_APP } from "../catalog/audit.ts";
import { listAuditOfTarget } from "../catalog/search-audit.ts";
import { PurserError } from "../errors.ts";
import { CopyBox, Table, Tag } from "./components.tsx";
import { Choice, Field, Hidden } from "./fields.tsx";
import { catchRejection, createDashboardRoutes, type DashboardEnv, type Form, parseForm, textField } from "./form.ts";
import { queryString, Time, timeText } from "./format.tsx";
import { FormToken, page } from "./layout.tsx";
import { keepOnce, readRandom, takeOnce } from "./session.tsx";

const ADMIN_KEYS_PATH = "/admin/apps/admin-keys";
const ADMIN_KEY_NOTICES: Readonly<Record<string, string>> = {
  created: "Administration key created.",
  revoked: "Administration key revoked. It no longer works.",
};
const adminKeyFieldOf = (scope: string): string => `scope ${scope}`;

async function adminKeysPage(c: Context<DashboardEnv>, form: Form = {}, rejection?: PurserError) {
  const { root } = c.var;
  const { keys } = await listAdminKeys(root);
  const ids = keys.map(({ adminKeyId }) => adminKeyId);
  const creationEntries = await listAuditOfTarget(root, NO_APP, ids, "admin_key.created");
  const creatorById = new Map((await nameActors(root)(creationEntries)).map(({ target, by }) => [target, by]));
  const created = await takeOnce<CreateAdminKeyOutput>(c, "admin key");
  return page(
    c,
    { title: "Administration keys", rejection, notice: ADMIN_KEY_NOTICES[c.req.query("notice") ?? ""] },
    <>
      {created !== null && (
        <section class="card">
          <h2>New key</h2>
          <p>Copy it now: it is not shown again.</p>
          <CopyBox label={created.name} value={created.key} />
        </section>
      )}
      <section class="card">
        <p class="soft">
          Keys for the administration API, for people and services that must not have the admin token. They cannot sign
          in to this dashboard.
        </p>
        <Table
          label="Administration keys"
          csv="administration-keys"
          head={["Key", "Name", "Scopes", "Applications", "Modes", "Created", "By", "Status"]}
          empty="No administration keys yet."
          rows={keys.map((key) => [
            <code>{key.hint}</code>,
            key.name,
            key.scopes.join(", "),
            key.apps === null ? "all" : key.apps.map((appId) => <code>{appId} </code>),
            key.modes === null ? "live, test" : key.modes.join(", "),
            <Time at={key.createdAt} />,
            creatorById.get(key.adminKeyId) ?? "",
            <Status of={key} />,
          ])}
        />
      </section>
      <NewKeyForm c={c} form={form} rejection={rejection} />
    </>,
  );
}

const Status = ({ of: { adminKeyId, hint, revokedAt } }: { of: AdminKeyOutput }) =>
  revokedAt === null ? (
    <a
      class="button quiet danger small"
      href={`${ADMIN_KEYS_PATH}/revoke${queryString({ adminKeyId })}`}
      aria-label={`Revoke ${hint}`}
    >
      Revoke
    </a>
  ) : (
    <Tag kind="revoked">revoked {timeText(revokedAt)}</Tag>
  );

/** Asks before a key is revoked, which cannot be undone. */
async function revokePage(c: Context<DashboardEnv>) {
  const { keys } = await listAdminKeys(c.var.root);
  const key = keys.find(({ adminKeyId }) => adminKeyId === c.req.query("adminKeyId"));
  if (key === undefined) throw new PurserError("not_found", "There is no such administration key.");
  return page(
    c,
    { title: "Revoke administration key" },
    <form method="post" action={`${ADMIN_KEYS_PATH}/revoke`} class="card">
      <FormToken c={c} />
      <Hidden fields={{ adminKeyId: key.adminKeyId }} />
      <p>
        “{key.name}” <code>{key.hint}</code> stops working at once. This cannot be undone.
      </p>
      <div class="row">
        <button type="submit" class="danger">
          Revoke key
        </button>
        <a class="button quiet" href={ADMIN_KEYS_PATH}>
          Cancel
        </a>
      </div>
    </form>,
  );
}

interface NewKeyProps {
  readonly c: Context<DashboardEnv>;
  readonly form: Form;
  readonly rejection: PurserError | undefined;
}

const NewKeyForm = ({ c, form, rejection }: NewKeyProps) => (
  <form method="post" action={ADMIN_KEYS_PATH} class="card">
    <h2>New administration key</h2>
    <FormToken c={c} />
    {/* Submitting this form twice creates one key. */}
    <Hidden fields={{ nonce: form.nonce ?? c.var.root.newId("") }} />
    <div class="row">
      <Field label="Name" name="name" value={form.name} required rejection={rejection} placeholder="Support desk" />
      <Field label="Application ids" name="apps" value={form.apps} rejection={rejection} hint="empty: all" />
      <Choice
        label="Modes"
        name="mode"
        value={form.mode}
        rejection={rejection}
        options={[
          ["", "live and test"],
          ["live", "live"],
          ["test", "test"],
        ]}
      />
    </div>
    <fieldset>
      <legend>Scopes</legend>
      <div class="checks">
        {Object.entries(SCOPES).map(([scope, meaning]) => (
          <label>
            <input
              type="checkbox"
              name={adminKeyFieldOf(scope)}
              value="yes"
              checked={form[adminKeyFieldOf(scope)] === "yes"}
            />{" "}
            <b>{scope}</b>: {meaning}
          </label>
        ))}
      </div>
    </fieldset>
    <button type="submit">Create key</button>
  </form>
);

function readInput(form: Form) {
  const apps = (form.apps ?? "").split(/[\s,]+/).filter((appId) => appId !== "");
  const mode = textField(form, "mode");
  return parseForm(createAdminKeyInput, {
    name: form.name ?? "",
    scopes: Object.keys(SCOPES).filter((scope) => form[adminKeyFieldOf(scope)] === "yes"),
    ...(apps.length === 0 ? {} : { apps }),
    ...(mode === undefined ? {} : { modes: [mode] }),
  });
}

export const adminKeysRoutes = createDashboardRoutes()
  .get("/apps/admin-keys", (c) => adminKeysPage(c))
  .post("/apps/admin-keys", async (c) => {
    const { form, admin } = c.var;
    const created = await catchRejection(async () =>
      createAdminKey(admin, readInput(form), await readRandom(c, form.nonce ?? admin.newId(""))),
    );
    if (created.rejection !== undefined) return adminKeysPage(c, form, created.rejection);
    await keepOnce(c, "admin key", created.result);
    return c.redirect(`${ADMIN_KEYS_PATH}?notice=created`, 303);
  })
  .get("/apps/admin-keys/revoke", revokePage)
  .post("/apps/admin-keys/revoke", async (c) => {
    const done = await catchRejection(() => revokeAdminKey(c.var.admin, c.var.form.adminKeyId ?? ""));
    return done.rejection === undefined
      ? c.redirect(`${ADMIN_KEYS_PATH}?notice=revoked`, 303)
      : adminKeysPage(c, {}, done.rejection);
  });
