import { type RowOf, select } from "../db/sql.ts";
import { apiKeys, environments } from "../db/tables.ts";
import { DAY_MS, iso } from "../lib/time.ts";
import type { KeyOutput } from "./responses.ts";

const ofKey = {
  keyId: apiKeys.id,
  name: apiKeys.name,
  hint: apiKeys.hint,
  kind: apiKeys.kind,
  createdAtMs: apiKeys.createdAtMs,
  revokedAtMs: apiKeys.revokedAtMs,
  lastUsedDay: apiKeys.lastUsedDay,
};
const ofEnvironment = { mode: environments.mode };

/** What is shown of a key, for a SELECT from `api_keys AS k` and `environments AS e`. */
export const keyColumns = `${select(ofKey, "k")}, ${select(ofEnvironment, "e")}`;
export type KeyRow = RowOf<typeof ofKey & typeof ofEnvironment>;

/** A key on the wire; never the key itself. */
export function presentKey({ createdAtMs, revokedAtMs, lastUsedDay, ...shown }: KeyRow): KeyOutput {
  return {
    ...shown,
    createdAt: iso(createdAtMs),
    revokedAt: revokedAtMs === null ? null : iso(revokedAtMs),
    lastUsedOn: lastUsedDay === null ? null : iso(lastUsedDay * DAY_MS).slice(0, 10),
  };
}
