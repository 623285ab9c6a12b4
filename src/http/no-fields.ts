import * as z from "zod";
import { readBody } from "./body.ts";
import { factory } from "./factory.ts";

/** What a POST takes that has no fields: any field is an unknown one (W6). */
export const noFields = z.strictObject({});

/** Reads the body of a POST that takes no fields: one that is absent or empty stands for `{}`. */
export const readNoFields = factory.createMiddleware((c, next) =>
  readBody(c, async () => {
    if ((await c.req.text()) === "") c.req.json = async <T>() => ({}) as T;
    await next();
  }),
);
