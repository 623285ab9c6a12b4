import type { Context } from "hono";
import { PurserError } from "../errors.ts";
import type { AppEnv } from "../http/factory.ts";
import { verifyEndUser } from "./end-user.ts";
import { openEndUserSetting } from "./stored-setting.ts";

/** Verifies the end-user's token by the setting that came with the key, and that the request asks about nobody else. */
export async function admitEndUser(c: Context<AppEnv>, endUserAuth: string | null): Promise<void> {
  const setting = await openEndUserSetting(c.get("ctx"), c.get("ctx").environment, endUserAuth);
  if (setting === null) {
    throw new PurserError(
      "forbidden",
      "The application has no end-user token setting in this mode, so publishable keys may do nothing here. Set one in the " +
        "dashboard, or by `PUT /api/v1/admin/apps/{appId}/end-user-auth`.",
    );
  }
  const token = c.req.header("x-user-token");
  if (token === undefined || token === "") {
    throw new PurserError("invalid_user_token", "Send the user's JWT from your own sign-in as `X-User-Token`.");
  }
  c.set("endUserId", await verifyEndUser(c.get("runtime"), setting, token));
  assertOwnUser(c);
}

/**
 * Says whom a request asks about, before anything is asked: a publishable caller may ask about the end-user whom the token
 * proves, and about nobody else (C20). Throws `forbidden`, now or when the token was verified.
 */
export function askAbout(c: Context<AppEnv>, param: string, userId: string): void {
  c.set("askedUser", { param, userId });
  assertOwnUser(c);
}

function assertOwnUser(c: Context<AppEnv>): void {
  const [askedUser, endUserId] = [c.get("askedUser"), c.get("endUserId")];
  if (askedUser === undefined || endUserId === undefined || endUserId === askedUser.userId) return;
  throw new PurserError("forbidden", "must be the user whom the end-user token names", { param: askedUser.param });
}
