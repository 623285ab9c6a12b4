import type { Context } from "hono";
import type { EndUserAuthOutput } from "../apps/responses.ts";
import type { TokenTest } from "../apps/test-user-token.ts";
import { Choice, Field, LongText } from "./components.tsx";
import type { DashboardEnv } from "./env.ts";
import { type Form, textField } from "./form.ts";
import { FormToken, pathIn } from "./layout.tsx";

interface TokenSettingProps {
  readonly c: Context<DashboardEnv>;
  readonly setting: EndUserAuthOutput["setting"];
}

/** The setting by which end-user tokens are verified, as a form. */
export const TokenSetting = ({ c, setting }: TokenSettingProps) => (
  <form method="post" action={pathIn(c, "end-user-auth")} class="card">
    <h2>User tokens</h2>
    <p class="soft">
      How Purser verifies your users' sign-in tokens. A browser needs one, with a publishable key, to read its user's
      credits. {setting === null ? "Not set: publishable keys cannot read anything." : null}
      {setting?.type === "hs256" ? "A secret is set. Enter it again to save changes." : null}
    </p>
    <FormToken c={c} />
    <div class="row">
      <Choice
        label="Verified by"
        name="type"
        value={setting?.type ?? "none"}
        options={[
          ["none", "not verified (off)"],
          ["jwks", "published keys (JWKS)"],
          ["hs256", "a shared secret (HS256)"],
        ]}
      />
      <Field label="JWKS URL" name="url" value={setting?.url} placeholder="https://…/.well-known/jwks.json" />
      <Field label="Shared secret" name="secret" type="password" hint="32 bytes or more" autocomplete="new-password" />
    </div>
    <div class="row">
      <Field label="Issuer (optional)" name="issuer" value={setting?.issuer} />
      <Field label="Audience (optional)" name="audience" value={setting?.audience} />
      <Field
        label="Pages that may use publishable keys"
        hint="origins, separated by spaces; any when empty"
        name="origins"
        value={setting?.origins?.join(" ")}
        placeholder="https://app.example.com"
      />
      <Field label="Claim with the user id" name="claim" value={setting?.claim} placeholder="sub" />
      <button type="submit">Save</button>
    </div>
  </form>
);

/** Verifies a token with the setting. */
export const TokenTester = ({ c, test }: { c: Context<DashboardEnv>; test: TokenTest | undefined }) => (
  <form method="post" action={pathIn(c, "test-token")} class="card">
    <h2>Test a user token</h2>
    <FormToken c={c} />
    <LongText label="User token (JWT). It is not stored." name="token" required />
    <button type="submit">Verify token</button>
    {test !== undefined && (
      <p class={`notice ${"userId" in test ? "good" : "bad"}`} role="status">
        {"userId" in test ? `Valid token for user ${test.userId}.` : `Invalid token. ${test.flaw}`}
      </p>
    )}
  </form>
);

/** The setting in the form of the API. */
export function settingOf(form: Form): unknown {
  if (form.type === "none") return null;
  const origins = textField(form, "origins")?.trim().split(/\s+/);
  const texts = Object.fromEntries(
    ["issuer", "audience", "claim"].map((name) => [name, textField(form, name)]).filter(([, value]) => value),
  );
  const shared = { ...texts, ...(origins === undefined ? {} : { origins }) };
  return form.type === "hs256"
    ? { type: "hs256", secret: form.secret, ...shared }
    : { type: "jwks", url: form.url, ...shared };
}
