import type { Context } from "hono";
import type { EndUserAuthOutput } from "../apps/answers.ts";
import type { TokenTest } from "../apps/test-user-token.ts";
import { Choice, Field, LongText } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { type Form, textField } from "./form.ts";
import { FormToken, pathIn } from "./layout.tsx";

interface TokenSettingProps {
  readonly c: Context<DashboardEnv>;
  readonly setting: EndUserAuthOutput["setting"];
}

/** How end-user tokens are verified, to be changed. */
export const TokenSetting = ({ c, setting }: TokenSettingProps) => (
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

/** Tries a token by the setting. */
export const TokenTester = ({ c, test }: { c: Context<DashboardEnv>; test: TokenTest | undefined }) => (
  <form method="post" action={pathIn(c, "test-token")} class="card">
    <h2>Does a token verify?</h2>
    <FormToken c={c} />
    <LongText label="Paste an end-user token (JWT). It is not kept." name="token" required />
    <button type="submit">Test it</button>
    {test !== undefined && (
      <p class={`notice ${"userId" in test ? "good" : "bad"}`} role="status">
        {"userId" in test ? `It verifies, and proves the user ${test.userId}.` : `It does not verify. ${test.flaw}`}
      </p>
    )}
  </form>
);

/** The setting as the API takes it. */
export function settingOf(form: Form): unknown {
  if (form.type === "none") return null;
  const shared = Object.fromEntries(
    ["issuer", "audience", "claim"].map((name) => [name, textField(form, name)]).filter(([, value]) => value),
  );
  return form.type === "hs256"
    ? { type: "hs256", secret: form.secret, ...shared }
    : { type: "jwks", url: form.url, ...shared };
}
