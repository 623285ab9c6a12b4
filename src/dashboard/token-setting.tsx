import type { Context } from "hono";
import type { EndUserAuthOutput, TokenTest } from "../catalog/apps.ts";
import type { PurserError } from "../errors.ts";
import { Choice, Field, LongText } from "./fields.tsx";
import { type DashboardEnv, type Form, textField } from "./form.ts";
import { FormToken, pathIn } from "./layout.tsx";

interface TokenSettingProps {
  readonly c: Context<DashboardEnv>;
  readonly setting: EndUserAuthOutput["setting"];
  /** The form that was rejected, and why. */
  readonly form: Form;
  readonly rejection: PurserError | undefined;
}

/** Shows the setting that verifies end-user tokens, as a form. A rejected form stays as it was typed, except for its secret. */
export const TokenSetting = ({ c, setting, form, rejection: all }: TokenSettingProps) => {
  const isRejected = form.type !== undefined;
  const rejection = isRejected ? all : undefined;
  const Text = (props: {
    name: "url" | "issuer" | "audience" | "claim" | "payerClaim" | "payerPrefix";
    label: string;
    hint?: string;
    placeholder?: string;
  }) => {
    const value = isRejected ? form[props.name] : (setting?.[props.name] ?? "");
    return <Field {...props} value={value} rejection={rejection} param={`setting.${props.name}`} />;
  };
  const Check = ({ name, isSet, label }: { name: string; isSet: boolean; label: string }) => (
    <label>
      <input type="checkbox" name={name} value="yes" checked={isRejected ? form[name] === "yes" : isSet} /> {label}
    </label>
  );
  const hasSecret = setting?.type === "hs256";
  return (
    <form method="post" action={pathIn(c, "end-user-auth")} class="card" id="end-user-auth">
      <h2>User tokens</h2>
      <p class="soft">
        How Purser verifies your users' sign-in tokens. A browser needs one, with a publishable key, to read its user's
        credits. {setting === null ? "Not set: publishable keys cannot read anything." : null}
        {hasSecret ? "A secret is set. Leave its field empty to keep it." : null}
      </p>
      {setting?.type === "jwks" && (setting.audience ?? null) === null && (
        <p class="notice bad">
          No audience is set. Tokens that your sign-in issues to other applications pass too, if the same keys sign
          them.
        </p>
      )}
      <FormToken c={c} />
      <div class="row">
        <Choice
          label="Verified by"
          name="type"
          value={isRejected ? form.type : (setting?.type ?? "none")}
          options={[
            ["none", "not verified (off)"],
            ["jwks", "published keys (JWKS)"],
            ["hs256", "a shared secret (HS256)"],
          ]}
        />
        <Text name="url" label="JWKS URL" placeholder="https://…/.well-known/jwks.json" />
        <Field
          label="Shared secret"
          name="secret"
          type="password"
          hint={hasSecret ? "empty keeps the present one" : "32 bytes or more"}
          autocomplete="new-password"
          rejection={rejection}
          param="setting.secret"
        />
      </div>
      <div class="row">
        <Text name="issuer" label="Issuer" hint="optional with a shared secret" />
        <Text name="audience" label="Audience" hint="optional with a shared secret" />
        <Text name="claim" label="Claim with the user id" placeholder="sub" />
        <Text name="payerClaim" label="Claim with the ids of the user's payers" placeholder="org_id" />
        <Text name="payerPrefix" label="Prefix of payers' ids" placeholder="org:" />
      </div>
      <div class="checks">
        <Check
          name="anyAudience"
          isSet={setting?.type === "jwks" && (setting.audience ?? null) === null}
          label="Published keys: accept tokens for every application of the issuer (leave the audience empty)"
        />
        <Check
          name="trustUnverified"
          isSet={setting?.trustUnverified === true}
          label="Accept an e-mail address or phone number that the token does not call verified"
        />
        <Check
          name="trustUserWritten"
          isSet={setting?.trustUserWritten === true}
          label="Accept a claim that users can write themselves, such as user_metadata"
        />
      </div>
      <div class="row">
        <Field
          label="Pages that may use publishable keys"
          hint="origins, separated by spaces; any when empty"
          name="origins"
          value={isRejected ? form.origins : setting?.origins?.join(" ")}
          placeholder="https://app.example.com"
          rejection={rejection}
          param="setting.origins"
        />
        <button type="submit">Save</button>
      </div>
    </form>
  );
};

/** Shows a form that verifies a token with the setting. */
export const TokenTester = ({
  c,
  test,
  token,
}: {
  c: Context<DashboardEnv>;
  test: TokenTest | undefined;
  token: string | undefined;
}) => (
  <form method="post" action={`${pathIn(c, "test-token")}#test-token`} class="card" id="test-token">
    <h2>Test a user token</h2>
    <FormToken c={c} />
    <LongText label="User token (JWT). It is not stored." name="token" value={token} required />
    <button type="submit">Verify token</button>
    {test !== undefined && (
      <p class={`notice ${"userId" in test ? "good" : "bad"}`} role="status">
        {"userId" in test ? `Valid token for user ${test.userId}.` : `Invalid token. ${test.flaw}`}
      </p>
    )}
  </form>
);

/** Returns the setting in the form of the API. */
export function readTokenSetting(form: Form): unknown {
  if (form.type === "none") return null;
  const origins = textField(form, "origins")?.trim().split(/\s+/);
  const texts = Object.fromEntries(
    ["issuer", "audience", "claim", "payerClaim", "payerPrefix"]
      .map((name) => [name, textField(form, name)])
      .filter(([, value]) => value),
  );
  const trusted = Object.fromEntries(
    ["trustUnverified", "trustUserWritten"].filter((name) => form[name] === "yes").map((name) => [name, true]),
  );
  const shared = { ...texts, ...trusted, ...(origins === undefined ? {} : { origins }) };
  if (form.type === "hs256") return { type: "hs256", secret: form.secret, ...shared };
  const anyAudience = form.anyAudience === "yes" && texts.audience === undefined ? { audience: null } : {};
  return { type: "jwks", url: form.url, ...shared, ...anyAudience };
}
