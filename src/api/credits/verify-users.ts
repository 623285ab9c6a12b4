import * as z from "zod";
import { verifyUsers } from "../../books/credits/verify.ts";
import { inEnvironmentOf, requireEnvironment } from "../../catalog/apps.ts";
import { cursor, mode } from "../../http/fields.ts";
import { lazy } from "../../http/lazy.ts";
import { nextCursor } from "../../http/output-fields.ts";
import { words } from "../../lib/words.ts";
import { administration } from "../access.ts";
import { appParams } from "../common.ts";
import { operation } from "../operation.ts";
import { verifyOutput } from "./credit-shapes.ts";

export default operation({
  id: "verifyUsers",
  method: "post",
  path: "/api/v1/admin/apps/{appId}/verify",
  tag: "Administration",
  access: administration("people", "argument"),
  params: appParams,
  body: lazy(() => z.strictObject({ mode, cursor }).meta({ id: "VerifyUsers" })),
  idempotent: true,
  ...(WITH_REFERENCE && {
    output: () =>
      z
        .strictObject({ users: z.array(verifyOutput).meta(words("The users.")), nextCursor })
        .meta({ id: "LedgerVerificationList" }),
    summary: "Verify the balances of an application's users",
    description:
      "Recomputes the balances of one user after another from the ledger. A page verifies at most 10,000 entries; " +
      "a user with more continues on the next page. The call changes nothing, and is not recorded in the audit " +
      "log.",
    returns: "A page of users, each verified as by `GET /api/v1/credits/verify`.",
    example: () => ({
      body: { mode: "live" },
      output: {
        users: [{ userId: "user_42", balances: 3, entries: 41, isSound: true, flaws: [], nextCursor: null }],
        nextCursor: null,
      },
    }),
  }),
  handler: async (admin, { params, body }) => {
    const environment = await requireEnvironment(admin, params.appId, body.mode);
    return verifyUsers(inEnvironmentOf(admin, environment), body.cursor);
  },
});
