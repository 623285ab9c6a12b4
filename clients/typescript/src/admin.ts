import { type AdminOperations, admin } from "./generated/admin.ts";
import { clientOf } from "./index.ts";

export type { AdminOperations } from "./generated/admin.ts";

/** Applications, keys, packs and all else that an operator sets up, with the administrator's token or an administration key. */
export class PurserAdmin extends clientOf<AdminOperations>(admin) {}
