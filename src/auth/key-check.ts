import { and, eq, isNull, not, sql } from "drizzle-orm";
import { clockOf } from "../db/clock.ts";
import { computed, drizzle, fields, hasRow, insertFrom, query, type ValueOf } from "../db/query.ts";
import { apiKeys, environments } from "../db/schema.ts";
import type { RowsOf } from "../db/sql.ts";
import { guards } from "../db/views.ts";
import { sha256 } from "../lib/hash.ts";
import { remember } from "../lib/remember.ts";
import type { Key } from "./key.ts";

/** The values by which a key is found. */
export type KeyValues = { hash: string; environmentId: number; kind: Key["kind"] };

const isInForce = (value: ValueOf<KeyValues>) =>
  and(
    eq(apiKeys.hash, value("hash")),
    eq(apiKeys.environmentId, value("environmentId")),
    eq(apiKeys.kind, value("kind")),
    isNull(apiKeys.revokedAtMs),
  );

/** The key's row, if it is in force: the end-user token setting as JSON, and the test clock as text (db/clock.ts). */
export const selectKey = query((value: ValueOf<KeyValues>) =>
  drizzle
    .select({ ...fields(environments, "endUserAuth"), ...computed({ clock: clockOf() }) })
    .from(apiKeys)
    .crossJoin(environments)
    .where(and(isInForce(value), eq(environments.id, apiKeys.environmentId))),
);
export type KeyRow = RowsOf<[ReturnType<typeof selectKey>]>[0][number];

/** Aborts the batch with `guard_key` where the key is not in force. */
export const guardKey = query((value: ValueOf<KeyValues>) =>
  insertFrom(guards, { name: sql`'key'`, holds: hasRow(apiKeys, isInForce(value)) }, sql``),
);

/** Aborts the batch with `guard_origin` where the environment's setting lists origins, and not this one (L4). */
export const guardOrigin = query((value: ValueOf<{ environmentId: number; origin: string }>) => {
  const { endUserAuth } = environments;
  const isOther = sql`${endUserAuth} ->> '$.origins' IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM json_each(${endUserAuth}, '$.origins') WHERE value = ${value("origin")})`;
  const holds = not(hasRow(environments, and(eq(environments.id, value("environmentId")), isOther)));
  return insertFrom(guards, { name: sql`'origin'`, holds }, sql``);
});

/** The hash of a key. Whether the key is in force is not remembered. */
export const hashOf = remember(100, sha256);
