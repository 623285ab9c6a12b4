import { TrieRouter } from "hono/router/trie-router";
import { createApp } from "./app.ts";
import { dashboardRoutes } from "./dashboard/routes.tsx";

/** Purser with its dashboard. The router is a slower one: the fast one takes no `/packs/new` beside `/packs/:packId`. */
export const createAppWithDashboard = (...[runtime, deliver]: Parameters<typeof createApp>) =>
  createApp(runtime, deliver, new TrieRouter()).route("/admin", dashboardRoutes());
