import { Hono } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { limitArrivals } from "./auth/arrivals.ts";
import { systemCtx } from "./auth/require-admin.ts";
import { alertRoutes } from "./books/alerts/routes.ts";
import { balanceRoutes, creditRoutes } from "./books/credits/routes.ts";
import { usageLimitRoutes, userLimitRoutes } from "./books/limits/routes.ts";
import { recurringRoutes } from "./books/recurring/routes.ts";
import { statementRoutes } from "./books/statements/routes.ts";
import { environmentUsageRoutes, planRoutes, usageRoutes } from "./books/usage/routes.ts";
import { catalogRoutes } from "./catalog/routes.ts";
import { clockRoutes } from "./clocks/routes.ts";
import { dashboardRoutes } from "./dashboard/routes.tsx";
import { erasureRoutes, tombstoneRoutes } from "./erasure/routes.ts";
import { exportRoutes } from "./exports/routes.ts";
import { drainBody } from "./http/body.ts";
import { answerError, answerUnknownPath, logBug } from "./http/errors.ts";
import { type AppEnv, allowBrowsers, WARNING_HEADER, warningText } from "./http/factory.ts";
import { healthRoutes } from "./http/health.ts";
import { paymentRoutes, stripeRoutes } from "./payments/routes.ts";
import { analyticsLimitRoutes, captureRoutes, consentRoutes } from "./people/routes.ts";
import { docsRoutes, fileRoutes, openApiRoutes } from "./reference/routes.ts";
import { createRuntime, type Outbox, type Runtime } from "./runtime.ts";
import { makeFirstAttempts } from "./webhooks/deliver-due.ts";
import { webhookRoutes } from "./webhooks/routes.ts";

const requestRuntime = createRuntime();

/** A function that makes the first delivery attempts of the messages that a request wrote. */
type Deliver = (env: Env, runtime: Runtime, outbox: Outbox) => Promise<void>;

const deliverNow: Deliver = (env, runtime, outbox) => makeFirstAttempts(systemCtx(env, runtime), outbox);

/** Creates the HTTP application. Tests pass the runtime of each request, by its bindings, and their own way to deliver messages. */
export function createWorkerApp(
  runtimeOf: (env: Env) => Runtime = () => requestRuntime,
  deliver: Deliver = deliverNow,
) {
  // Hono's default router first tries a faster one, which cannot tell some of these paths apart.
  const app = new Hono<AppEnv>({ router: new TrieRouter() })
    .use(async (c, next) => {
      const runtime = runtimeOf(c.env);
      const outbox: Outbox = [];
      const warnings = new Set<string>();
      c.set("runtime", { ...runtime, outbox, warn: (sentence) => warnings.add(sentence) });
      c.set("requestId", runtime.newId("req_"));
      // Hono's `requestId` would take over a caller's id.
      c.header("x-request-id", c.get("requestId"));
      // Responses hold data of one caller. A route that may be cached, such as a page's assets, overwrites this header.
      c.header("cache-control", "no-store");
      c.header("x-content-type-options", "nosniff");
      await next();
      if (warnings.size > 0 && c.res.ok) c.res.headers.set(WARNING_HEADER, warningText(warnings));
      if (outbox.length === 0) return;
      // The cron retries failed deliveries.
      const delivery = deliver(c.env, runtime, outbox).catch((cause: unknown) => logBug(cause, c.var.requestId));
      c.executionCtx.waitUntil(delivery);
    })
    .use(drainBody)
    .use("/api/v1/credits", allowBrowsers)
    .use("/api/v1/credits/recurring", allowBrowsers)
    .use("/api/v1/consent", allowBrowsers)
    .use("/api/v1/usage", allowBrowsers)
    .use("/api/v1/usage/events", allowBrowsers)
    .use("/api/v1/usage/limits", allowBrowsers)
    .get("/", limitArrivals, (c) => c.redirect("/docs"))
    .get("/health", limitArrivals)
    .route("/health", healthRoutes)
    .route("/api/v1/credits", creditRoutes)
    .route("/api/v1/credits", planRoutes)
    .route("/api/v1/credits/recurring", recurringRoutes)
    .route("/api/v1/consent", consentRoutes)
    .route("/", captureRoutes)
    .route("/api/v1", exportRoutes)
    .route("/api/v1", erasureRoutes)
    .route("/api/v1/admin", catalogRoutes)
    .route("/api/v1/admin", analyticsLimitRoutes)
    .route("/api/v1/admin", paymentRoutes)
    .route("/api/v1/admin", balanceRoutes)
    .route("/api/v1/admin", webhookRoutes)
    .route("/api/v1/admin", alertRoutes)
    .route("/api/v1/admin", usageLimitRoutes)
    .route("/api/v1/admin", environmentUsageRoutes)
    .route("/api/v1/admin", statementRoutes)
    .route("/api/v1/admin", clockRoutes)
    .route("/api/v1/admin", tombstoneRoutes)
    .route("/api/v1/usage", usageRoutes)
    .route("/api/v1/usage/limits", userLimitRoutes)
    .route("/api/v1/stripe", stripeRoutes)
    .route("/api/v1", openApiRoutes)
    .route("/docs", docsRoutes)
    .route("/admin", dashboardRoutes)
    .route("/", fileRoutes);
  app.onError(answerError);
  return app.notFound(answerUnknownPath(app));
}
