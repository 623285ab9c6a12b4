import type { EndUserAuthOutput, TokenTest } from "../catalog/apps.ts";
import type { PurserError } from "../errors.ts";
import { Check, Choice, Field, LongText } from "./fields.tsx";
import { type Form, textField } from "./form.ts";
import { FormCard } from "./form-card.tsx";

interface TokenSettingProps {
  readonly setting: EndUserAuthOutput["setting"];
  /** The form that was rejected, and why. */
  readonly form: Form;
  readonly rejection: PurserError | undefined;
}

/** Returns the stored setting as the texts of its form. */
const storedTexts = (setting: EndUserAuthOutput["setting"]): Form => ({
  type: setting?.type ?? "none",
  ...Object.fromEntries(TEXTS.map(([name]) => [name, setting?.[name] ?? ""])),
  origins: setting?.origins?.join(" ") ?? "",
  anyAudience: setting?.type === "jwks" && (setting.audience ?? null) === null ? "yes" : "",
  trustUnverified: setting?.trustUnverified === true ? "yes" : "",
  trustUserWritten: setting?.trustUserWritten === true ? "yes" : "",
});

const TEXTS = [
  ["url", "JWKS URL", { placeholder: "https://…/.well-known/jwks.json" }],
  ["issuer", "Issuer", { hint: "optional with a shared secret" }],
  ["audience", "Audience", { hint: "optional with a shared secret" }],
  ["claim", "Claim with the user id", { placeholder: "sub" }],
  ["payerClaim", "Claim with the ids of the user's payers", { placeholder: "org_id" }],
  ["payerPrefix", "Prefix of payers' ids", { placeholder: "org:" }],
] as const;

const CHECKS = [
  ["anyAudience", "Published keys: accept tokens for every application of the issuer (leave the audience empty)"],
  ["trustUnverified", "Accept an e-mail address or phone number that the token does not call verified"],
  ["trustUserWritten", "Accept a claim that users can write themselves, such as user_metadata"],
] as const;

/** Shows the setting that verifies end-user tokens, as a form. A rejected form stays as it was typed, except for its secret. */
export const TokenSetting = ({ setting, form: typed, rejection }: TokenSettingProps) => {
  const isRejected = typed.type !== undefined;
  const form = isRejected ? typed : storedTexts(setting);
  const hasSecret = setting?.type === "hs256";
  return (
    <FormCard
      action="end-user-auth"
      id="end-user-auth"
      title="User tokens"
      about={
        <>
          How Purser verifies your users' sign-in tokens. A page needs one, beside its publishable key, to read its
          user's credits. {setting === null ? "Not set: publishable keys cannot read anything." : null}
          {hasSecret ? "A secret is set. Leave its field empty to keep it." : null}
        </>
      }
      form={form}
      rejection={isRejected ? rejection : undefined}
      button="Save"
    >
      {storedTexts(setting).anyAudience === "yes" && (
        <p class="notice bad wide">
          No audience is set. Tokens that your sign-in issues to other applications pass too, if the same keys sign
          them.
        </p>
      )}
      <Choice
        label="Verified by"
        name="type"
        options={[
          ["none", "not verified (off)"],
          ["jwks", "published keys (JWKS)"],
          ["hs256", "a shared secret (HS256)"],
        ]}
      />
      <Field
        label="Shared secret"
        name="secret"
        value=""
        type="password"
        hint={hasSecret ? "empty keeps the present one" : "32 bytes or more"}
        autocomplete="new-password"
        param="setting.secret"
      />
      {TEXTS.map(([name, label, more]) => (
        <Field name={name} label={label} param={`setting.${name}`} {...more} />
      ))}
      <div class="checks wide">
        {CHECKS.map(([name, label]) => (
          <Check name={name}>{label}</Check>
        ))}
      </div>
      <Field
        label="Pages that may use publishable keys"
        hint="origins, separated by spaces; any when empty"
        name="origins"
        placeholder="https://app.example.com"
        param="setting.origins"
      />
    </FormCard>
  );
};

interface TesterProps {
  readonly test: TokenTest | undefined;
  readonly token: string | undefined;
}

/** Shows a form that verifies a token with the setting. */
export const TokenTester = ({ test, token }: TesterProps) => (
  <FormCard
    action="test-token#test-token"
    id="test-token"
    title="Test a user token"
    form={token === undefined ? {} : { token }}
    button="Verify token"
    beside={
      test !== undefined && (
        <p class={`notice wide ${"userId" in test ? "good" : "bad"}`} role="status">
          {"userId" in test ? `Valid token for user ${test.userId}.` : `Invalid token. ${test.rejectionReason}`}
        </p>
      )
    }
  >
    <LongText label="User token (JWT). It is not stored." name="token" required />
  </FormCard>
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
