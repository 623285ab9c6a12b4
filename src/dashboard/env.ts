import { Hono } from "hono";
import type { AppEnv } from "../http/factory.ts";
import type { Ctx } from "../runtime.ts";

/** A sign-in to the dashboard. */
export interface Session {
  /** Its own, or of whom Cloudflare Access admitted: what form tokens are bound to. */
  readonly sessionId: string;
  /** Goes into every form. */
  readonly formToken: string;
  readonly isByAccess: boolean;
  /** The name that the audit gives. */
  readonly by: string;
}

/** What travels with a request to the dashboard; `session` and `admin` behind `requireSignIn`, `ctx` behind `inEnvironment`. */
export interface DashboardEnv {
  Bindings: AppEnv["Bindings"];
  Variables: AppEnv["Variables"] & {
    session: Session;
    ctx: Ctx;
    appName: string;
    /** The form that was sent, behind `requireSignIn`; empty for a GET. */
    form: Readonly<Record<string, string>>;
  };
}

export function createDashboardRoutes() {
  return new Hono<DashboardEnv>();
}
