import { Hono } from "hono";
import { TrieRouter } from "hono/router/trie-router";
import { limitArrivals } from "./api/enter.ts";
import { operations } from "./api/operations.ts";
import { systemCtx } from "./auth/system-ctx.ts";
import { dashboardRoutes } from "./dashboard/routes.tsx";
import { drainBody } from "./http/body.ts";
import { answerError, answerUnknownPath, logBug } from "./http/error-responses.ts";
import type { AppEnv } from "./http/factory.ts";
import { WARNING_HEADER, warningText } from "./http/warnings.ts";
import { once } from "./lib/once.ts";
import { docsRoutes, fileRoutes } from "./reference/routes.ts";
import { createRuntime, type Outbox, type Runtime } from "./runtime.ts";
import { makeFirstAttempts } from "./webhooks/deliver-due.ts";

const requestRuntime = createRuntime();

/** A function that makes the first delivery attempts of the messages that a request wrote. */
type Deliver = (env: Env, runtime: Runtime, outbox: Outbox) => Promise<void>;

// Hono's default router first tries a faster one, which cannot tell some of these paths apart.
const newApp = () => new Hono<AppEnv>({ router: new TrieRouter() });

const deliverNow: Deliver = (env, runtime, outbox) => makeFirstAttempts(systemCtx(env, runtime), outbox);

/** Creates the HTTP application. Tests pass the runtime of each request, by its bindings, and their own way to deliver messages. */
export function createWorkerApp(
  runtimeOf: (env: Env) => Runtime = () => requestRuntime,
  deliver: Deliver = deliverNow,
) {
  /** Adds the steps of every request, and the routes after them. */
  const serve = (app: Hono<AppEnv>, addRoutes: (app: Hono<AppEnv>) => void) => {
    app
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
      .use(drainBody);
    addRoutes(app);
    app.onError(answerError);
    return app.notFound(answerUnknownPath(app));
  };
  // Few isolates serve the dashboard, whose routes would take a part of every start.
  const dashboard = once(() => serve(newApp(), (app) => app.route("/admin", dashboardRoutes())));
  const root = newApp().all("/admin/*", (c) => dashboard().fetch(c.req.raw, c.env, c.executionCtx));
  return serve(root, (app) => {
    app
      .get("/", limitArrivals, (c) => c.redirect("/docs"))
      .route("/docs", docsRoutes)
      .route("/", fileRoutes);
    for (const { mount } of operations) mount(app);
  });
}
