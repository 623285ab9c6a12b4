import { createMiddleware } from "hono/factory";
import { limitArrivals, openRoot } from "../api/enter.ts";
import { inDatabaseOf } from "../auth/system-ctx.ts";
import { readStoredNames } from "../books/prices/unit-names.ts";
import { inEnvironmentOf, requireApp, requireEnvironment } from "../catalog/apps.ts";
import { errorStatus, PurserError, rejectionIn } from "../errors.ts";
import { readWalletCurrency } from "../payments/stripe-setting.ts";
import type { Mode } from "../runtime.ts";
import { adjustRoutes } from "./adjust.tsx";
import { adminKeysRoutes } from "./admin-keys.tsx";
import { alertsRoutes } from "./alerts.tsx";
import { AppLink } from "./app-link.tsx";
import { appsRoutes } from "./apps.tsx";
import { auditRoutes } from "./audit.tsx";
import { balancePages } from "./balance.tsx";
import { balancesRoutes } from "./balances.tsx";
import { bulkGrantRoutes } from "./bulk-grant.tsx";
import { clockPages } from "./clock.tsx";
import { eraseRoutes } from "./erase.tsx";
import { eventPages } from "./event.tsx";
import { figuresRoutes } from "./figures.tsx";
import { createDashboardRoutes, type DashboardEnv, type PageContext } from "./form.ts";
import { grantRoutes } from "./grant.tsx";
import { keysRoutes } from "./keys.tsx";
import { page, readAsset, sectionOfPath, withAssets } from "./layout.tsx";
import { limitsRoutes } from "./limits.tsx";
import { erasureList, memberList, reachedList, recurringList } from "./lists.tsx";
import { marginRoutes } from "./margin.tsx";
import { newRecurringRoutes } from "./new-recurring.tsx";
import { overviewRoutes } from "./overview.tsx";
import { packRoutes } from "./pack.tsx";
import { packsRoutes } from "./packs.tsx";
import { paymentPages } from "./payment.tsx";
import { paymentsRoutes } from "./payments.tsx";
import { peopleRoutes } from "./people.tsx";
import { personRoutes } from "./person.tsx";
import { pricesRoutes } from "./prices.tsx";
import { pricesCompareRoutes } from "./prices-compare.tsx";
import { pricesEditRoutes } from "./prices-edit.tsx";
import { recurringPages } from "./recurring.tsx";
import { refundPages } from "./refund.tsx";
import { rejectionsRoutes } from "./rejections.tsx";
import { revokeGrantRoutes } from "./revoke-grant.tsx";
import { searchRoutes } from "./search.tsx";
import { protect, readAdminToken } from "./session.tsx";
import { sessionsRoutes } from "./sessions.tsx";
import { requireSignIn, signInRoutes } from "./sign-in.tsx";
import { statementsRoutes } from "./statements.tsx";
import { stripePages } from "./stripe.tsx";
import { stripeEventsRoutes } from "./stripe-events.tsx";
import { usagePages } from "./usage.tsx";
import { usageLimitPages } from "./usage-limits.tsx";
import { userRoutes } from "./user.tsx";
import { userNotesRoutes } from "./user-notes.tsx";
import { usersRoutes } from "./users.tsx";
import { verifyRoutes } from "./verify.tsx";
import { webhookPages } from "./webhook.tsx";
import { webhooksRoutes } from "./webhooks.tsx";

/** Sets `ctx` for the application and mode of the path. */
const inEnvironment = createMiddleware<DashboardEnv>(async (c, next) => {
  const appId = c.req.param("appId") ?? "";
  const admin = inDatabaseOf(c.var.admin, appId);
  const mode: Mode = c.req.param("mode") === "test" ? "test" : "live";
  const [app, currency] = await Promise.all([requireApp(admin, appId), readWalletCurrency(admin, appId, mode)]);
  const environment = await requireEnvironment(admin, appId, mode);
  c.set("root", admin);
  c.set("admin", admin);
  c.set("appId", appId);
  c.set("mode", mode);
  c.set("appName", app.name);
  c.set("units", { ...readStoredNames(environment.unitNames), currency });
  c.set("ctx", inEnvironmentOf(admin, environment));
  await next();
});

/** The pages of one application in one mode. */
const environmentRoutes = () =>
  createDashboardRoutes()
    .use(inEnvironment)
    .route("/", overviewRoutes)
    .route("/", searchRoutes)
    .route("/", rejectionsRoutes)
    .route("/", figuresRoutes)
    .route("/", packsRoutes)
    .route("/", packRoutes)
    .route("/", usersRoutes)
    .route("/", userRoutes)
    .route("/", balancesRoutes)
    .route("/", verifyRoutes)
    .route("/", grantRoutes)
    .route("/", bulkGrantRoutes)
    .route("/", recurringList)
    .route("/", reachedList)
    .route("/", memberList)
    .route("/", erasureList)
    .route("/", userNotesRoutes)
    .route("/", revokeGrantRoutes)
    .route("/", newRecurringRoutes)
    .route("/", recurringPages)
    .route("/", adjustRoutes)
    .route("/", refundPages)
    .route("/", balancePages)
    .route("/", eventPages)
    .route("/", peopleRoutes)
    .route("/", personRoutes)
    .route("/", eraseRoutes)
    .route("/", paymentsRoutes)
    .route("/", stripePages)
    .route("/", stripeEventsRoutes)
    .route("/", paymentPages)
    .route("/", keysRoutes)
    .route("/", alertsRoutes)
    .route("/", pricesRoutes)
    .route("/", pricesEditRoutes)
    .route("/", pricesCompareRoutes)
    .route("/", marginRoutes)
    .route("/", usageLimitPages)
    .route("/", webhooksRoutes)
    .route("/", webhookPages)
    .route("/", limitsRoutes)
    .route("/", statementsRoutes)
    .route("/", usagePages)
    .route("/", clockPages)
    .route("/", auditRoutes);

function describeRejection(rejection: PurserError): string {
  const status = errorStatus[rejection.code];
  if (status === 404) return "Not found";
  return status < 500 ? "Request failed" : "Something went wrong";
}

function errorPage(c: PageContext, rejection: PurserError) {
  // Set when the application in the path exists.
  const isInApp: boolean = c.var.ctx !== undefined;
  const section = isInApp ? sectionOfPath(c) : undefined;
  return page(
    c,
    { title: describeRejection(rejection), section, rejection },
    <p>
      {section !== undefined && (
        <>
          <AppLink to={section}>Back to {section}</AppLink> ·{" "}
        </>
      )}
      {isInApp && (
        <>
          <AppLink to="overview">Overview</AppLink> ·{" "}
        </>
      )}
      <a href="/admin/apps">Applications</a>
    </p>,
  );
}

/** Returns the routes of the dashboard, which stands at /admin. */
export const dashboardRoutes = () =>
  createDashboardRoutes()
    .onError((error, c) => {
      const rejection = rejectionIn(error);
      // The error is returned as the API returns it if it is a bug, or if nobody is signed in.
      if (rejection === null || c.var.session === undefined) throw error;
      for (const [name, value] of Object.entries(rejection.headers)) c.header(name, value);
      return errorPage(c, rejection);
    })
    .use(protect, limitArrivals, withAssets, openRoot)
    .get("/assets/:name", async (c) => {
      const asset = await readAsset(c.env, c.req.param("name"));
      if (asset === null) throw new PurserError("not_found", "There is nothing at this path.");
      c.header("cache-control", "public, max-age=31536000, immutable");
      return c.body(asset.text, 200, { "content-type": asset.type });
    })
    .route("/", signInRoutes)
    .get("/", (c) => c.redirect("/admin/apps", 303))
    // This pattern covers /apps itself as well.
    .use("/apps/*", requireSignIn)
    .route("/", appsRoutes)
    .route("/", sessionsRoutes)
    .route("/", adminKeysRoutes)
    .route("/apps/:appId/:mode{live|test}", environmentRoutes())
    // Not `all`: a known path keeps its 405 for other methods.
    .get("*", (c) => {
      readAdminToken(c.var.root.settings);
      return errorPage(c, new PurserError("not_found", "There is no such page."));
    });
