import * as z from "zod";
import { words } from "../lib/words.ts";
import { lazy } from "./lazy.ts";

export const nextCursor = /* @__PURE__ */ lazy(() =>
  z.string().nullable().meta(words("The cursor of the next page. Null on the last page.", null)),
);

/** A time in a response: ISO 8601 in UTC, with milliseconds (W10). */
export const time = lazy(() => z.string().meta({ format: "date-time" }));
