import type { Context } from "hono";
import type { CreateKeyOutput, KeyOutput } from "../apps/answers.ts";
import { createKey } from "../apps/create-key.ts";
import { readEndUserAuth, setEndUserAuth } from "../apps/end-user-auth.ts";
import { keysPage as readKeys } from "../apps/list-keys.ts";
import { revokeKey } from "../apps/revoke-key.ts";
import { createKeyInput, setEndUserAuthInput } from "../apps/schemas.ts";
import { type TokenTest, testUserToken } from "../apps/test-user-token.ts";
import type { PurserError } from "../errors.ts";
import { Choice, CopyBox, Field, Hidden, LongText, Table, Tag } from "./components.tsx";
import { createDashboardRoutes, type DashboardEnv } from "./env.ts";
import { attempt, type Form, filled, parse } from "./form.ts";
import { query, time } from "./format.ts";
import { FormToken, page, pathIn } from "./layout.tsx";

const SHOWN_MAX = 100;
const TOLD: Readonly<Record<string, string>> = {
  app: "The application is made. It needs keys to be of use.",
  revoked: "The key is revoked. It works nowhere after 30 seconds at the latest.",
  setting: "The setting is saved, and in force everywhere within 30 seconds.",
};

interface Outcome {
  readonly made?: CreateKeyOutput | undefined;
  readonly test?: TokenTest | undefined;
  readonly refusal?: PurserError | undefined;
}

async function keysPage(c: Context<DashboardEnv>, outcome: Outcome = {}) {
  const { id, appId, mode } = c.var.ctx.environment;
  const listed = await readKeys(c.var.root, id, SHOWN_MAX, c.req.query("after"));
  const told = TOLD[c.req.query("told") ?? ""];
  return page(
    c,
    { title: "Application and keys", section: "keys", refusal: outcome.refusal, told },
    <>
      {outcome.made !== undefined && (
        <section class="card">
          <h2>The new key</h2>
          <p>It is shown this once. Only its hash is kept.</p>
          <CopyBox label={`${outcome.made.kind} key, ${outcome.made.mode} mode`} value={outcome.made.key} />
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
        </dl>
      </section>
      <Keys c={c} keys={listed.keys} next={listed.next} />
      <TokenSetting c={c} setting={(await readEndUserAuth(c.var.root, appId, mode)).setting} />
      <TokenTester c={c} test={outcome.test} />
    </>,
  );
}

interface KeysProps {
  readonly c: Context<DashboardEnv>;
  readonly keys: readonly KeyOutput[];
  readonly next: string | null;
}

const Keys = ({ c, keys, next }: KeysProps) => (
  <section class="card">
    <h2>Keys of the {c.var.ctx.environment.mode} mode</h2>
    <Table
      label="Keys"
      head={["Key", "Kind", "Name", "Made (UTC)", "State"]}
      empty="None yet."
      rows={keys.map((key) => [
        <code>{key.hint}</code>,
        key.kind,
        key.name ?? "",
        <span class="num">{time(key.createdAt)}</span>,
        key.revokedAt === null ? (
          <form method="post" action={pathIn(c, "keys/confirm")}>
            <FormToken c={c} />
            <Hidden fields={{ keyId: key.keyId, hint: key.hint }} />
            <button type="submit" class="quiet" aria-label={`Revoke ${key.hint}`}>
              Revoke
            </button>
          </form>
        ) : (
          <Tag kind="revoked">revoked {time(key.revokedAt)}</Tag>
        ),
      ])}
    />
    <p>
      {filled(c.req.query(), "after") !== undefined && <a href={pathIn(c, "keys")}>First keys</a>}{" "}
      {next !== null && <a href={`${pathIn(c, "keys")}${query({ after: next })}`}>More keys</a>}
    </p>
    <form method="post" action={pathIn(c, "keys")} class="row">
      <FormToken c={c} />
      <Choice
        label="New key"
        name="kind"
        options={[
          ["secret", "secret: for your backend"],
          ["publishable", "publishable: for browsers"],
        ]}
      />
      <Field label="Name (optional)" name="name" placeholder="Backend" />
      <button type="submit">Make key</button>
    </form>
  </section>
);

type Setting = Awaited<ReturnType<typeof readEndUserAuth>>["setting"];

const TokenSetting = ({ c, setting }: { c: Context<DashboardEnv>; setting: Setting }) => (
  <form method="post" action={pathIn(c, "end-user-auth")} class="card">
    <h2>End-user tokens</h2>
    <p class="soft">
      How the tokens of your own sign-in are verified, so that a browser may list its user's credits with a publishable
      key. {setting === null ? "None set: publishable keys read nothing." : null}
      {setting?.type === "hs256" ? "A secret is set; it is not shown. Saving needs it again." : null}
    </p>
    <FormToken c={c} />
    <div class="row">
      <Choice
        label="Verified by"
        name="type"
        value={setting?.type ?? "none"}
        options={[
          ["none", "nothing: switched off"],
          ["jwks", "published keys (JWKS)"],
          ["hs256", "a shared secret (HS256)"],
        ]}
      />
      <Field label="JWKS address" name="url" value={setting?.url} placeholder="https://…/.well-known/jwks.json" />
      <Field label="Shared secret" name="secret" type="password" hint="32 bytes or more" autocomplete="new-password" />
    </div>
    <div class="row">
      <Field label="Issuer (optional)" name="issuer" value={setting?.issuer} />
      <Field label="Audience (optional)" name="audience" value={setting?.audience} />
      <Field label="Claim that names the user" name="claim" value={setting?.claim} placeholder="sub" />
      <button type="submit">Save</button>
    </div>
  </form>
);

const TokenTester = ({ c, test }: { c: Context<DashboardEnv>; test: TokenTest | undefined }) => (
  <form method="post" action={pathIn(c, "test-token")} class="card">
    <h2>Does a token verify?</h2>
    <FormToken c={c} />
    <LongText label="Paste an end-user token (JWT). It is not kept." name="token" required />
    <button type="submit">Test it</button>
    {test !== undefined && (
      <p class={`word ${"userId" in test ? "good" : "bad"}`} role="status">
        {"userId" in test ? `It verifies, and proves the user ${test.userId}.` : `It does not verify. ${test.flaw}`}
      </p>
    )}
  </form>
);

/** The setting as the API takes it. */
function settingOf(form: Form): unknown {
  if (form.type === "none") return null;
  const shared = Object.fromEntries(
    ["issuer", "audience", "claim"].map((name) => [name, filled(form, name)]).filter(([, value]) => value),
  );
  return form.type === "hs256"
    ? { type: "hs256", secret: form.secret, ...shared }
    : { type: "jwks", url: form.url, ...shared };
}

export const keysRoutes = () =>
  createDashboardRoutes()
    .get("/keys", (c) => keysPage(c))
    .post("/keys", async (c) => {
      const { form, root } = c.var;
      const { appId, mode } = c.var.ctx.environment;
      const made = await attempt(async () =>
        createKey(root, appId, parse(createKeyInput, { kind: form.kind, mode, name: filled(form, "name") })),
      );
      return keysPage(c, { made: made.result, refusal: made.refusal });
    })
    .post("/keys/confirm", async (c) =>
      page(
        c,
        { title: "Revoke this key?", section: "keys" },
        <form method="post" action={pathIn(c, "keys/revoke")} class="card">
          <FormToken c={c} />
          <Hidden fields={{ keyId: c.var.form.keyId ?? "" }} />
          <p>
            <code>{c.var.form.hint}</code> will work nowhere after 30 seconds at the latest. This cannot be undone.
          </p>
          <div class="row">
            <button type="submit" class="danger">
              Revoke the key
            </button>
            <a class="button quiet" href={pathIn(c, "keys")}>
              Keep it
            </a>
          </div>
        </form>,
      ),
    )
    .post("/keys/revoke", async (c) => {
      const { appId } = c.var.ctx.environment;
      const done = await attempt(() => revokeKey(c.var.root, appId, c.var.form.keyId ?? ""));
      return done.refusal === undefined
        ? c.redirect(pathIn(c, "keys?told=revoked"), 303)
        : keysPage(c, { refusal: done.refusal });
    })
    .post("/end-user-auth", async (c) => {
      const { appId, mode } = c.var.ctx.environment;
      const done = await attempt(async () =>
        setEndUserAuth(c.var.root, appId, parse(setEndUserAuthInput, { mode, setting: settingOf(c.var.form) })),
      );
      return done.refusal === undefined
        ? c.redirect(pathIn(c, "keys?told=setting"), 303)
        : keysPage(c, { refusal: done.refusal });
    })
    .post("/test-token", async (c) => {
      const { appId, mode } = c.var.ctx.environment;
      const token = (c.var.form.token ?? "").trim();
      return keysPage(c, { test: await testUserToken(c.var.root, appId, mode, token) });
    });
