import * as z from "zod";

const claims = {
  issuer: z.string().min(1).max(2_000).optional(),
  audience: z.string().min(1).max(2_000).optional(),
  /** The claim that names the user; `sub` unless set otherwise. */
  claim: z.string().min(1).max(200).optional(),
};

const HS256_SECRET_BYTES_MIN = 32;

function isFetchable(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  const isLoopback = hostname === "localhost" || hostname === "[::1]" || /^127(\.\d{1,3}){3}$/.test(hostname);
  return protocol === "https:" || (protocol === "http:" && isLoopback);
}

/** How an application's end-user tokens are verified: by its published keys, or by a shared secret. */
export const endUserSetting = z.discriminatedUnion("type", [
  z.strictObject({
    type: z.literal("jwks"),
    url: z.string().max(2_000).refine(isFetchable, "must be an https URL, or http on a loopback host"),
    ...claims,
  }),
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
