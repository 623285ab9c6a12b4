import * as z from "zod";

/** The parts that the descriptions of all administration operations share. */
export const tag = "Administration";
export const access = "admin";
export const createdAt = "2026-01-15T12:00:00.000Z";
export const path = (rest: string) => `/api/v1/admin${rest}`;
export const appId = z.string().describe("The id of the application, `app_…`.");
export const ofApp = z.object({ appId });
