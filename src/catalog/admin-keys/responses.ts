import * as z from "zod";
import { mode } from "../../http/fields.ts";
import { scope } from "./schemas.ts";

const time = z.string().meta({ format: "date-time" });

const adminKeyFields = {
  adminKeyId: z.string(),
  hint: z.string().describe("The beginning and the end of the key, to recognise it by."),
  name: z.string(),
  scopes: z.array(scope),
  apps: z.array(z.string()).nullable().describe("The ids of its applications. Null: all."),
  modes: z.array(mode).nullable().describe("Null: both."),
  createdAt: time,
};

export const createAdminKeyOutput = z
  .strictObject({ ...adminKeyFields, key: z.string().describe("The key. Returned only here.") })
  .meta({ id: "NewAdminKey" });
export type CreateAdminKeyOutput = z.infer<typeof createAdminKeyOutput>;

export const adminKeyOutput = z
  .strictObject({ ...adminKeyFields, revokedAt: time.nullable() })
  .meta({ id: "AdminKey" });
export type AdminKeyOutput = z.infer<typeof adminKeyOutput>;

export const listAdminKeysOutput = z.strictObject({ keys: z.array(adminKeyOutput) }).meta({ id: "AdminKeyList" });
export type ListAdminKeysOutput = z.infer<typeof listAdminKeysOutput>;
