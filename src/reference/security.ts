import type { Access } from "./operation.ts";

/** The schemes of each access; one of them suffices. */
export const SECURITY: Readonly<Record<Access, Record<string, string[]>[]>> = {
  open: [],
  secret: [{ secretKey: [] }],
  "end-user": [{ secretKey: [] }, { publishableKey: [] }],
  admin: [{ adminToken: [] }],
  client: [{ publishableKey: [] }, { relayKey: [] }, { secretKey: [] }],
  "key-inside": [],
};

const bearer = (description: string) => ({ type: "http" as const, scheme: "bearer", description });

/**
 * All of them stand in the header `Authorization`. The end-user's token is a parameter and no scheme: a generated client that
 * has one credential would send it by every scheme, and so a secret key as `X-User-Token`.
 */
export const securitySchemes = {
  secretKey: bearer("A secret key, `sk_live_…` or `sk_test_…`. Only for your backend."),
  publishableKey: bearer(
    "A publishable key, `pk_live_…` or `pk_test_…`. Safe to use in a browser. Does not identify a user.",
  ),
  relayKey: bearer(
    "A relay key, `rk_live_…` or `rk_test_…`. For what passes on the analytics of others, such as a proxy.",
  ),
  adminToken: bearer("The admin token, set by the deployment in `ADMIN_TOKEN`."),
};
