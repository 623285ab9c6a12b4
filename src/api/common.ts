import * as z from "zod";

/** Ids and times that the examples share. */
export const EXAMPLE = {
  appId: "app_3kDw9pX1sB6vMn0qTzR7Ge",
  packId: "cpk_1mVt9sD4gE6uXa8oPzJ2Rq",
  packItemId: "cpi_7hWk3yB5nC0eUi9fMvS4Lx",
  balanceId: "crb_5cQx2vN8bT0rKf7yLwZ3Hd",
  eventId: "chat-2026-01-16-0001",
  createdAt: "2026-01-15T12:00:00.000Z",
} as const;

export const appId = z.string().describe("The id of the application, `app_…`.");
export const appParams = z.lazy(() => z.object({ appId }));
