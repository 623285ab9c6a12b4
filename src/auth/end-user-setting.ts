import * as z from "zod";
import { urlAdvice } from "../lib/public-url.ts";
import type { Environment } from "../runtime.ts";
import type { Settings } from "../settings.ts";
import { openSecret, sealSecret } from "./secrets.ts";

const ORIGINS_MAX = 20;

const isOrigin = (text: string): boolean =>
  URL.canParse(text) && new URL(text).protocol === "https:" && new URL(text).origin === text;

const origin = () =>
  z.string().refine(isOrigin, "must be an origin as browsers send it, such as `https://app.example.com`");

const optionalText = (max: number) => z.string().min(1).max(max).optional();

/** Returns the fields that both types of setting may have. */
const claims = () => ({
  issuer: optionalText(2_000),
  audience: optionalText(2_000),
  /** The claim that names the user; `sub` by default. */
  claim: optionalText(200),
  origins: z
    .array(origin())
    .max(ORIGINS_MAX)
    .optional()
    .describe(
      "The origins of pages that may use publishable keys, as in the `Origin` header. Every origin when absent.",
    ),
});

const HS256_SECRET_BYTES_MIN = 32;

/**
 * Hosts that publish keys for the tokens of many applications, such as all applications with Firebase or Google. Only the issuer
 * and the audience say which application a token is for.
 */
const SHARED_KEY_HOSTS = new Set([
  "www.googleapis.com",
  "googleapis.com",
  "login.microsoftonline.com",
  "login.microsoftonline.us",
  "login.live.com",
  "login.windows.net",
  "login.partner.microsoftonline.cn",
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

const publishedKeys = z.lazy(() =>
  z
    .strictObject({
      type: z.literal("jwks"),
      url: z
        .string()
        .max(2_000)
        .superRefine((text, refinement) => {
          const message = urlAdvice(text);
          if (message !== null) refinement.addIssue({ code: "custom", message });
        })
        .describe("https, or http on a loopback host."),
      ...claims(),
    })
    .superRefine((setting, refinement) => {
      if (!hasSharedKeys(setting.url)) return;
      for (const name of ["issuer", "audience"] as const) {
        if (setting[name] !== undefined) continue;
        const message = "is required, because these keys sign the tokens of other applications too";
        refinement.addIssue({ code: "custom", path: [name], message });
      }
    }),
);

/** The way to verify an application's end-user tokens: by its published keys, or by a shared secret. */
export const endUserSetting = z.lazy(() =>
  z.discriminatedUnion("type", [
    publishedKeys,
    z.strictObject({
      type: z.literal("hs256"),
      secret: z
        .string()
        .max(2_000)
        .refine((text) => text.isWellFormed(), "must be well-formed Unicode")
        .refine(
          (text) => new TextEncoder().encode(text).length >= HS256_SECRET_BYTES_MIN,
          `must have at least ${HS256_SECRET_BYTES_MIN} bytes`,
        ),
      ...claims(),
    }),
  ]),
);

export type EndUserSetting = z.infer<typeof endUserSetting>;

/** The setting as it is stored, with the secret of `hs256` sealed. */
const storedSetting = z.lazy(() =>
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("jwks"), url: z.string(), ...claims() }),
    z.object({ type: z.literal("hs256"), sealed: z.string(), ...claims() }),
  ]),
);

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
  const compact = origins === undefined || origins.length === 0 ? others : { ...others, origins };
  if (compact.type !== "hs256") return JSON.stringify(compact);
  const { secret, ...rest } = compact;
  return JSON.stringify({ ...rest, sealed: await sealSecret(ctx, secretContextOf(owner), secret) });
}

/** Returns the stored setting, or null when there is none. Throws `secrets_unavailable` when its secret cannot be read. */
export async function openEndUserSetting(
  ctx: NeedsEndUserSetting,
  owner: SettingOwner,
  stored: string | null,
): Promise<EndUserSetting | null> {
  if (stored === null) return null;
  const setting = storedSetting.parse(JSON.parse(stored));
  if (setting.type !== "hs256") return endUserSetting.parse(setting);
  const { sealed, ...rest } = setting;
  return endUserSetting.parse({ ...rest, secret: await openSecret(ctx, secretContextOf(owner), sealed) });
}

/** Returns the stored setting without its secret. */
export function showEndUserSetting(stored: string | null) {
  if (stored === null) return null;
  const setting = storedSetting.parse(JSON.parse(stored));
  if (setting.type !== "hs256") return setting;
  const { sealed: _, ...shown } = setting;
  return shown;
}

/** Returns whether a page of this origin may use the environment's publishable keys (L4). */
export function isOriginAllowed(stored: string | null, origin: string): boolean {
  const { origins } = showEndUserSetting(stored) ?? {};
  return origins === undefined || origins.includes(origin);
}
