import { fields, type RowOf } from "../../db/query.ts";
import { apiKeys, environments } from "../../db/schema.ts";
import { DAY_MS, iso } from "../../lib/time.ts";
import type { KeyOutput } from "./responses.ts";

/** What is shown of a key, for a SELECT from `api_keys` and `environments`. */
export const keyFields = () => ({
  ...fields(apiKeys, {
    keyId: "id",
    name: "name",
    hint: "hint",
    kind: "kind",
    createdAtMs: "createdAtMs",
    revokedAtMs: "revokedAtMs",
    lastUsedDay: "lastUsedDay",
  }),
  ...fields(environments, "mode"),
});
type KeyRow = RowOf<ReturnType<typeof keyFields>>;

/** A key on the wire; never the key itself. */
export function presentKey({ createdAtMs, revokedAtMs, lastUsedDay, ...shown }: KeyRow): KeyOutput {
  return {
    ...shown,
    createdAt: iso(createdAtMs),
    revokedAt: revokedAtMs === null ? null : iso(revokedAtMs),
    lastUsedOn: lastUsedDay === null ? null : iso(lastUsedDay * DAY_MS).slice(0, 10),
  };
}
