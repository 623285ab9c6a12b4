import { Hono } from "hono";
import type { AppEnv } from "../http/factory.ts";
import type { TenantCtx } from "../runtime.ts";

/** A sign-in to the dashboard. */
export interface Session {
  /** The session's id, or one for the subject of Cloudflare Access. Form tokens are bound to it. */
  readonly sessionId: string;
  /** Goes into every form. */
  readonly formToken: string;
  readonly isByAccess: boolean;
  /** The name in the audit log. */
  readonly by: string;
}

/** The variables of a request. `requireSignIn` sets `session` and `admin`; `inEnvironment` sets `ctx`. */
export interface DashboardEnv {
  Bindings: AppEnv["Bindings"];
  Variables: AppEnv["Variables"] & {
    session: Session;
    ctx: TenantCtx;
    appName: string;
    /** The submitted form, set by `requireSignIn`. Empty for a GET. */
    form: Readonly<Record<string, string>>;
  };
}

export const createDashboardRoutes = () => new Hono<DashboardEnv>();
