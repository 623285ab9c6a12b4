import * as z from "zod";
import { lazy } from "../http/lazy.ts";
import { words } from "../lib/words.ts";

/** Ids and times that the examples share. */
export const EXAMPLE = {
  appId: "app_3kDw9pX1sB6vMn0qTzR7Ge",
  packId: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
  packItemId: "cpi_7hWk3yB5nC0eUi9fMvS4Lx",
  balanceId: "crb_5cQx2vN8bT0rKf7yLwZ3Hd",
  eventId: "chat-2026-01-16-0001",
  createdAt: "2026-01-15T12:00:00.000Z",
} as const;

export const appId = lazy(() => z.string().meta(words("The id of the application, `app_…`.", EXAMPLE.appId)));
export const appParams = lazy(() => z.object({ appId }));
