import type { LanguageModel } from "ai";
import type { Context, Hono } from "hono";

export interface Settings {
  readonly purserUrl: string;
  readonly secretKey: string;
  readonly model: Exclude<LanguageModel, string>;
  /** Returns the id of the user who is signed in. */
  readonly userOf: (c: Context) => string | Promise<string>;
}

export function chatApp(settings: Settings): Hono;
