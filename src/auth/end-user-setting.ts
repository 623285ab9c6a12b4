import * as z from "zod";
import { urlAdvice } from "../lib/public-url.ts";

const ORIGINS_MAX = 20;

const isOrigin = (text: string): boolean =>
  URL.canParse(text) && new URL(text).protocol === "https:" && new URL(text).origin === text;

const origin = z.string().refine(isOrigin, "must be an origin as browsers send it, such as `https://app.example.com`");

const someText = (max: number) => z.string().min(1).max(max).optional();

/** What each kind of setting may have beside its keys. */
export const claims = {
  issuer: someText(2_000),
  audience: someText(2_000),
  /** The claim that names the user; `sub` unless set otherwise. */
  claim: someText(200),
  origins: z
    .array(origin)
    .max(ORIGINS_MAX)
    .optional()
    .describe("The pages that may use publishable keys, by the `Origin` header. Any when absent."),
};

const HS256_SECRET_BYTES_MIN = 32;

/**
 * Hosts whose published keys sign the tokens of many applications, such as all that use Firebase or Google. Only issuer and
 * audience tell whose a token is.
 */
const SHARED_KEY_HOSTS = new Set([
  "www.googleapis.com",
  "googleapis.com",
  "login.microsoftonline.com",
  "login.microsoftonline.us",
  "login.live.com",
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

function isShared(url: string): boolean {
  return URL.canParse(url) && SHARED_KEY_HOSTS.has(new URL(url).hostname.replace(/\.$/, ""));
}

const publishedKeys = z
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
    ...claims,
  })
  .superRefine((setting, refinement) => {
    if (!isShared(setting.url)) return;
    for (const name of ["issuer", "audience"] as const) {
      if (setting[name] !== undefined) continue;
      const message = "is required, because these keys sign the tokens of other applications too";
      refinement.addIssue({ code: "custom", path: [name], message });
    }
  });

/** How an application's end-user tokens are verified: by its published keys, or by a shared secret. */
export const endUserSetting = z.discriminatedUnion("type", [
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
    ...claims,
  }),
]);

export type EndUserSetting = z.infer<typeof endUserSetting>;
