/** The tables of schema.ts as statements name them. Drizzle itself is no part of the Worker. */

import type * as schema from "./schema.ts";
import type { ColumnsOf } from "./sql.ts";

/** `expires_at_ms` of a balance that never expires. It sorts after every date, so that active balances are one index range. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER;

/** A field's column has the same name in snake case, which a test compares with the schema. */
const columnOf = (field: string): string => field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

function table<Table extends { readonly $inferSelect: object }>(): ColumnsOf<Table["$inferSelect"]> {
  // Typed by the schema: only fields that it has are asked for.
  return new Proxy({}, { get: (_, field) => columnOf(String(field)) }) as ColumnsOf<Table["$inferSelect"]>;
}

export const consentLog = table<typeof schema.consentLog>();
export const payments = table<typeof schema.payments>();
