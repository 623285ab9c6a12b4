import * as z from "zod";
import { rejectKeys } from "../http/fields.ts";
import { lazy } from "../http/lazy.ts";
import { urlAdvice } from "../lib/public-url.ts";
import { words } from "../lib/words.ts";
import type { Environment } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import { openSecret, sealSecret } from "./secrets.ts";

const ORIGINS_MAX = 20;

const isOrigin = (text: string): boolean =>
  URL.canParse(text) && new URL(text).protocol === "https:" && new URL(text).origin === text && !text.includes("*");

const origin = () =>
  z.string().refine(isOrigin, "must be an origin as browsers send it, such as `https://app.example.com`, without `*`");

const text = (max: number) => z.string().min(1).max(max).superRefine(rejectKeys);
const optionalText = (max: number) => text(max).optional();

/** Returns the fields that both types of setting may have. */
const shared = () => ({
  claim: optionalText(200).meta(
    words(
      "The claim that names the user; `sub` by default. Where no claim has that name, it is a path such as `o.id`; a name with " +
        "`:` or `/` is never a path.",
      "sub",
    ),
  ),
  payerClaim: optionalText(200).meta(
    words(
      "The claim with the ids of the payers whose balances and usage limits the user may read, such as `org_id`. An id that your " +
        "sign-in sets, never a name or slug that the maker of a team chooses.",
      "org_id",
    ),
  ),
  payerPrefix: optionalText(100).meta(
    words("Written before each of these ids, so that a team's id is never a user's. Needs `payerClaim`.", "org:"),
  ),
  trustUnverified: z
    .boolean()
    .optional()
    .meta(
      words("True: an e-mail address or a phone number names the user although its `…_verified` is not true.", false),
    ),
  trustUserWritten: z
    .boolean()
    .optional()
    .meta(words("True: `claim` may be one that users write about themselves, such as `user_metadata.id`.", false)),
  origins: z
    .array(origin())
    .max(ORIGINS_MAX)
    .optional()
    .meta(
      words(
        "The origins of pages that may use publishable keys, as in the `Origin` header. Every origin when absent.",
        ["https://example.com"],
      ),
    ),
});

/** Returns whether users write this claim about themselves: `user_metadata`, `unsafe_metadata` (Clerk), `custom:` (Cognito). */
const isUserWritten = (claim: string): boolean =>
  claim.startsWith("custom:") ||
  claim.split(/[.:/]/).some((name) => name === "user_metadata" || name === "unsafe_metadata");

interface SentClaims {
  readonly claim?: string | undefined;
  readonly payerClaim?: string | undefined;
  readonly payerPrefix?: string | undefined;
  readonly trustUserWritten?: boolean | undefined;
}

/** Rejects a claim in which any user could write another user's or payer's id, and a prefix without its claim. */
function rejectUserWritten(sent: SentClaims, refinement: z.RefinementCtx): void {
  const { payerClaim, payerPrefix, trustUserWritten } = sent;
  if (payerPrefix !== undefined && payerClaim === undefined) {
    refinement.addIssue({ code: "custom", path: ["payerPrefix"], message: "needs a `payerClaim`" });
  }
  if (trustUserWritten === true) return;
  const message =
    "is a claim that users can write themselves, so one could name another user. Take a claim that your sign-in sets; if " +
    "users cannot write this one, set `trustUserWritten` to true";
  for (const name of ["claim", "payerClaim"] as const) {
    const claim = sent[name];
    if (claim !== undefined && isUserWritten(claim)) refinement.addIssue({ code: "custom", path: [name], message });
  }
}

const HS256_SECRET_BYTES_MIN = 32;

/**
 * Hosts that publish keys for the tokens of many applications, such as all applications with Firebase or Google. Only the
 * audience says which application a token is for.
 */
const SHARED_KEY_HOSTS = new Set([
  "www.googleapis.com",
  "googleapis.com",
  "login.microsoftonline.com",
  "login.microsoftonline.us",
  "login.partner.microsoftonline.cn",
  "login.windows.net",
  "login.live.com",
  "kauth.kakao.com",
  "identity.xero.com",
  "login.salesforce.com",
  "oidc.vercel.com",
  "facebook.com",
  "sts.windows.net",
  "appleid.apple.com",
  "account.apple.com",
  "www.facebook.com",
  "limited.facebook.com",
  "token.actions.githubusercontent.com",
  "gitlab.com",
  "id.twitch.tv",
  "api.line.me",
  "access.line.me",
  "www.linkedin.com",
  "slack.com",
  "api.login.yahoo.com",
  "discord.com",
  "www.paypalobjects.com",
  "api.paypal.com",
  "oauth.telegram.org",
]);

function hasSharedKeys(url: string): boolean {
  return URL.canParse(url) && SHARED_KEY_HOSTS.has(new URL(url).hostname.replace(/\.$/, ""));
}

const publishedKeys = lazy(() =>
  z
    .strictObject({
      type: z.literal("jwks").meta(words("Tokens are verified by the public keys at `url`.")),
      url: z
        .string()
        .max(2_000)
        .superRefine((text, refinement) => {
          const message = urlAdvice(text);
          if (message !== null) refinement.addIssue({ code: "custom", message });
        })
        .superRefine(rejectKeys)
        .meta(words("https, or http on a loopback host.", "https://auth.example.com/.well-known/jwks.json")),
      issuer: text(2_000).meta(
        words(
          "The token's `iss`. `{tid}` in it stands for the token's `tid` (the tenant, with Microsoft Entra).",
          "https://auth.example.com/",
        ),
      ),
      audience: text(2_000)
        .nullable()
        .meta(
          words(
            "What the token's `aud` contains; in a token without `aud`, its `azp`, else its `client_id`. Null: tokens for every " +
              "application of the issuer are accepted.",
            "purser",
          ),
        ),
      ...shared(),
    })
    .superRefine((setting, refinement) => {
      rejectUserWritten(setting, refinement);
      if (setting.audience !== null || !hasSharedKeys(setting.url)) return;
      const message = "must not be null, because these keys sign the tokens of other applications too";
      refinement.addIssue({ code: "custom", path: ["audience"], message });
    }),
);

const sharedSecret = lazy(() =>
  z
    .strictObject({
      type: z.literal("hs256").meta(words("Tokens are verified by a shared secret.")),
      secret: z
        .string()
        .max(2_000)
        .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
        .refine(
          (text) => new TextEncoder().encode(text).length >= HS256_SECRET_BYTES_MIN,
          `must have at least ${HS256_SECRET_BYTES_MIN} bytes`,
        )
        .meta(words("The shared secret.", "0123456789abcdef0123456789abcdef")),
      issuer: optionalText(2_000).meta(words("The `iss` of the tokens.", "https://auth.example.com/")),
      audience: optionalText(2_000).meta(words("The `aud` of the tokens. Null: tokens have none.", "purser")),
      ...shared(),
    })
    .superRefine(rejectUserWritten),
);

/** The way to verify an application's end-user tokens: by its published keys, or by a shared secret. */
export const endUserSetting = lazy(() => z.discriminatedUnion("type", [publishedKeys, sharedSecret]));

export type EndUserSetting = z.infer<typeof endUserSetting>;

/** The version of the stored form. Settings without one were stored when other rules applied, by which they still go on. */
const STORED_VERSION = 2;

/** The fields of a stored setting. They were checked when they were stored, by the rules of that time. */
const storedRuleFields = () => ({
  issuer: z.string().optional(),
  audience: z.string().nullable().optional(),
  claim: z.string().optional().meta(words("The claim that has the user's id.")),
  payerClaim: z.string().optional().meta(words("The claim that has the ids of payers.")),
  payerPrefix: z.string().optional().meta(words("Written before each of them.")),
  trustUnverified: z
    .boolean()
    .optional()
    .meta(words("Whether an unverified e-mail address or phone number names the user.")),
  trustUserWritten: z.boolean().optional().meta(words("Whether `claim` may be one that users write about themselves.")),
  origins: z.array(z.string()).optional().meta(words("The origins of pages that may use publishable keys.")),
  version: z.literal(STORED_VERSION).optional(),
});

/** The setting as it is stored, with the secret of `hs256` sealed. */
const storedSetting = lazy(() =>
  z.discriminatedUnion("type", [
    z.object({
      type: z.literal("jwks"),
      url: z.string().meta(words("https, or http on a loopback host.", "https://example.com/webhooks")),
      ...storedRuleFields(),
    }),
    z.object({ type: z.literal("hs256"), sealed: z.string(), ...storedRuleFields() }),
  ]),
);

/** The rules by which tokens are verified, with the fields of every setting that was ever stored. */
export type TokenRules = (
  | { readonly type: "jwks"; readonly url: string }
  | { readonly type: "hs256"; readonly secret: string }
) & {
  readonly issuer?: string | undefined;
  readonly audience?: string | null | undefined;
  readonly claim?: string | undefined;
  readonly payerClaim?: string | undefined;
  readonly payerPrefix?: string | undefined;
  readonly trustUnverified?: boolean | undefined;
  /** Whether the setting was stored before the stored form had a version. */
  readonly isOlder?: boolean;
};

type SettingOwner = Pick<Environment, "appId" | "mode">;
type NeedsEndUserSetting = { readonly settings: Pick<Settings, "settingsSecrets"> };

const secretContextOf = (environment: SettingOwner) => ({ purpose: "end_user_auth" as const, environment });

/** Returns the setting as JSON to store. Throws `secrets_unavailable` when it has a secret and `SETTINGS_SECRET` is not set. */
export async function sealEndUserSetting(
  ctx: NeedsEndUserSetting,
  owner: SettingOwner,
  setting: EndUserSetting,
): Promise<string> {
  const { origins, ...others } = setting;
  const compact = { ...others, ...(origins === undefined || origins.length === 0 ? {} : { origins }) };
  const version = STORED_VERSION;
  if (compact.type !== "hs256") return JSON.stringify({ ...compact, version });
  const { secret, ...rest } = compact;
  return JSON.stringify({ ...rest, sealed: await sealSecret(ctx, secretContextOf(owner), secret), version });
}

/** Returns the rules of the stored setting, or null. Throws `secrets_unavailable` when its secret cannot be read. */
export async function openEndUserSetting(
  ctx: NeedsEndUserSetting,
  owner: SettingOwner,
  stored: string | null,
): Promise<TokenRules | null> {
  if (stored === null) return null;
  const { version, ...setting } = storedSetting.parse(JSON.parse(stored));
  const isOlder = version === undefined;
  if (setting.type !== "hs256") return { ...setting, isOlder };
  const { sealed, ...rest } = setting;
  return { ...rest, isOlder, secret: await openSecret(ctx, secretContextOf(owner), sealed) };
}

/** Returns the stored setting without its secret. */
export function showEndUserSetting(stored: string | null) {
  if (stored === null) return null;
  const { version: _, ...setting } = storedSetting.parse(JSON.parse(stored));
  if (setting.type !== "hs256") return setting;
  const { sealed: __, ...shown } = setting;
  return shown;
}

/** Returns whether a page of this origin may use the environment's publishable keys (L4). */
export function isOriginAllowed(stored: string | null, origin: string): boolean {
  const { origins } = showEndUserSetting(stored) ?? {};
  return origins === undefined || origins.includes(origin);
}
