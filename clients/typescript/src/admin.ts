import { type AdminOperations, admin } from "./generated/admin.ts";
import { clientOf } from "./index.ts";

export type { AdminOperations } from "./generated/admin.ts";

/**
 * A client for applications, keys, packs and other operator settings, with the administrator's token or an administration key.
 */
export class PurserAdmin extends clientOf<AdminOperations>(admin) {}
