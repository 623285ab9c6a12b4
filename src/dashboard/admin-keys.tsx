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
import { codeColumn, fieldColumn, shownColumn, textColumn, timeColumn } from "./columns.tsx";
import { SecretCard, Tag } from "./components.tsx";
import { askRoutes, confirmPage } from "./confirm.tsx";
import { Check, Choice, Field } from "./fields.tsx";
import { type Form, type PageContext, parseForm, textField } from "./form.ts";
import { FormCard, onSubmit } from "./form-card.tsx";
import { queryString, timeText } from "./format.tsx";
import { listAgain, listRoutes, type Resource, wholeList } from "./resource.tsx";
import { keepOnce, readRandom, takeOnce } from "./session.tsx";

const ADMIN_KEYS_PATH = "/admin/apps/admin-keys";
const adminKeyFieldOf = (scope: string): string => `scope ${scope}`;

const adminKeysList: Resource<AdminKeyOutput & { readonly by: string }> = {
  path: ADMIN_KEYS_PATH,
  title: "Administration keys",
  about:
    "Keys for the administration API, for people and services that must not have the admin token. They cannot sign in to this dashboard.",
  columns: [
    codeColumn("hint", "Key"),
    textColumn("name", "Name"),
    shownColumn("scopes", "Scopes", ({ scopes }) => scopes.join(", ")),
    shownColumn("apps", "Applications", ({ apps }) => apps?.join(" ") ?? "all"),
    shownColumn("modes", "Modes", ({ modes }) => modes?.join(", ") ?? "live, test"),
    timeColumn("createdAt", "Created"),
    textColumn("by", "By"),
    fieldColumn("revokedAt", "Status", ({ adminKeyId, hint, revokedAt }) =>
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
      ),
    ),
  ],
  read: wholeList(async ({ var: { root } }) => {
    const { keys } = await listAdminKeys(root);
    const ids = keys.map(({ adminKeyId }) => adminKeyId);
    const entries = await listAuditOfTarget(root, NO_APP, ids, "admin_key.created");
    const creators = new Map((await nameActors(root)(entries)).map(({ target, by }) => [target, by]));
    return keys.map((key) => ({ ...key, by: creators.get(key.adminKeyId) ?? "" }));
  }),
  empty: "No administration keys yet.",
  notices: {
    created: "Administration key created.",
    revoked: "Administration key revoked. It no longer works.",
  },
  above: async (c) => {
    const created = await takeOnce<CreateAdminKeyOutput>(c, "admin key");
    return <SecretCard title="New key" label={created?.name ?? ""} secret={created?.key} />;
  },
  below: (_c, { rejection }) => (
    <FormCard
      action={ADMIN_KEYS_PATH}
      title="New administration key"
      rejection={rejection}
      schema={createAdminKeyInput}
      once
      button="Create key"
    >
      <Field label="Name" name="name" placeholder="Support desk" />
      <Field label="Application ids" name="apps" hint="empty: all" />
      <Choice label="Modes" name="mode" options={[["", "live and test"], "live", "test"]} />
      <fieldset class="wide">
        <legend>Scopes</legend>
        <div class="checks">
          {Object.entries(SCOPES).map(([scope, meaning]) => (
            <Check name={adminKeyFieldOf(scope)}>
              <span>
                <b>{scope}</b>: {meaning}
              </span>
            </Check>
          ))}
        </div>
      </fieldset>
    </FormCard>
  ),
};

/** Asks before a key is revoked, which cannot be undone. */
async function askRevokeAdminKey(c: PageContext, { adminKeyId }: Form) {
  const { keys } = await listAdminKeys(c.var.root);
  const key = keys.find((each) => each.adminKeyId === adminKeyId);
  if (key === undefined) throw new PurserError("not_found", "There is no such administration key.");
  return confirmPage(
    c,
    {
      title: "Revoke administration key",
      fields: { adminKeyId: key.adminKeyId },
      button: "Revoke key",
      cancel: ADMIN_KEYS_PATH,
      isDangerous: true,
    },
    <p>
      “{key.name}” <code>{key.hint}</code> stops working at once. This cannot be undone.
    </p>,
  );
}

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

export const adminKeysRoutes = listRoutes(adminKeysList)
  .post(
    "/apps/admin-keys",
    onSubmit(async (c) => {
      const { form, admin } = c.var;
      const random = await readRandom(c, form.nonce ?? admin.newId(""));
      await keepOnce(c, "admin key", await createAdminKey(admin, readInput(form), random));
      return `${ADMIN_KEYS_PATH}?notice=created`;
    }, listAgain(adminKeysList)),
  )
  .route(
    "/",
    askRoutes(
      "/apps/admin-keys/revoke",
      askRevokeAdminKey,
      async ({ var: { admin, form } }) => {
        await revokeAdminKey(admin, form.adminKeyId ?? "");
        return `${ADMIN_KEYS_PATH}?notice=revoked`;
      },
      listAgain(adminKeysList),
    ),
  );
