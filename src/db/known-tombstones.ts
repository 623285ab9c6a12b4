import { and, eq, type SQL, sql } from "drizzle-orm";
import { PurserError, temporarilyUnavailable } from "../errors.ts";
import { rememberPerObject } from "../lib/bounded-memory.ts";
import type { Environment } from "../runtime.ts";
import { attempt, findConstraint } from "./attempt.ts";
import { drizzle, fields, insertFrom, query, type ValueOf } from "./query.ts";
import { environments } from "./schema.ts";
import { readSettingsSnapshot, requireClock } from "./settings-snapshot.ts";
import { all, batch, type Db, type RowsOf, type Statement } from "./sql.ts";
import {
  findErased,
  personGuards,
  type TombstoneCtx,
  type TombstoneSecrets,
  tombstoneSecretsIn,
} from "./tombstones.ts";
import { guards } from "./views.ts";

/** The tombstones of each environment that this isolate last read. If they are outdated, the batch aborts. */
const knownTombstonesOf = rememberPerObject(() => new Map<string, KnownTombstones>());
const REMEMBERED_ENVIRONMENTS_MAX = 1_000;
const TOMBSTONE_ATTEMPTS_MAX = 8;

interface KnownTombstones {
  /** The fingerprints of the secrets that hashed the tombstones. */
  readonly fingerprints: TombstoneSecrets;
  /** The text that the guard compares: the fingerprints, and the number of lifts. */
  readonly text: string;
  /** The text without lifts, for a write that uses nothing remembered about ids. Other persons' erasures do not change it. */
  readonly textWithoutLifts: string;
}
const KNOWN_NOTHING: KnownTombstones = { fingerprints: [], text: "null ", textWithoutLifts: "null " };

function knownIn(settingsSnapshot: string | null): KnownTombstones {
  const { tombstones = null, lifts = null } = readSettingsSnapshot(settingsSnapshot);
  const textWithoutLifts = `${JSON.stringify(tombstones)} `;
  return {
    fingerprints: tombstoneSecretsIn(settingsSnapshot),
    text: `${textWithoutLifts}${lifts ?? ""}`,
    textWithoutLifts,
  };
}

type AppAndMode = { appId: string; mode: Environment["mode"] };
type GuardValues = { text: string; withLifts: number; clock: string | null };

const isEnvironmentOfApp = (value: ValueOf<AppAndMode>) =>
  and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));

/** Aborts the batch with `guard_tombstones` when the environment's tombstones differ from the remembered ones. */
const guard = (value: ValueOf<GuardValues>, which: SQL | undefined): SQL => {
  const { settingsSnapshot } = environments;
  const lifts = sql`iif(${value("withLifts")}, coalesce(${settingsSnapshot} ->> '$.lifts', ''), '')`;
  const text = sql`coalesce(${settingsSnapshot} -> '$.tombstones', 'null') || ' ' || ${lifts}`;
  const holds = sql`(${text}) = ${value("text")} AND ${settingsSnapshot} -> '$.clock' IS ${value("clock")}`;
  return insertFrom(guards, { name: sql`'tombstones'`, holds }, sql`FROM ${environments} WHERE ${which}`);
};
const guardTombstones = query((value: ValueOf<GuardValues & { id: number }>) =>
  guard(value, eq(environments.id, value("id"))),
);
const guardTombstonesOf = query((value: ValueOf<GuardValues & AppAndMode>) => guard(value, isEnvironmentOfApp(value)));

const selectSettingsSnapshot = query((value: ValueOf<AppAndMode>) =>
  drizzle.select(fields(environments, "settingsSnapshot")).from(environments).where(isEnvironmentOfApp(value)),
);

const tombstonesKey = ({ environment: { appId, mode } }: TombstoneCtx): string => `${appId} ${mode}`;

/**
 * Returns the text that the next write's guard compares. Everything that the isolate remembers about ids is valid only with
 * this text.
 */
export const knownText = (ctx: TombstoneCtx): string =>
  knownTombstonesOf(ctx.isolate).get(tombstonesKey(ctx))?.text ?? KNOWN_NOTHING.text;

/**
 * Runs a write that does not read the environment's settings snapshot first, such as a consent. `send` receives the remembered fingerprints
 * (at first none) and sends its batch with `guard`. If they are outdated, the batch aborts. Then this function reads them
 * and calls `send` again. `withLifts` is false for a write that uses nothing remembered about ids. Throws `clockMoved` when the
 * test clock has changed (D3).
 */
export async function withTombstones<Answer>(
  ctx: TombstoneCtx,
  send: (fingerprints: TombstoneSecrets, guard: Statement) => Promise<Answer>,
  { withLifts = true }: { readonly withLifts?: boolean } = {},
): Promise<Answer> {
  const remembered = knownTombstonesOf(ctx.isolate);
  const { id, appId, mode } = ctx.environment;
  const key = tombstonesKey(ctx);
  let isFresh = false;
  for (let count = 1; ; count++) {
    const { fingerprints, ...texts } = remembered.get(key) ?? KNOWN_NOTHING;
    try {
      const text = withLifts ? texts.text : texts.textWithoutLifts;
      const values = { text, withLifts: Number(withLifts), clock: ctx.clock };
      const guard =
        id === undefined ? guardTombstonesOf({ appId, mode, ...values }) : guardTombstones({ id, ...values });
      return await send(fingerprints, guard);
    } catch (error) {
      // A rejection must not come from memory, because the tombstones of a lost secret may have been deleted since.
      const isRejection = error instanceof PurserError && error.code === "erasure_unavailable";
      if (isRejection ? isFresh : findConstraint(error) !== "guard_tombstones") throw error;
      if (count === TOMBSTONE_ATTEMPTS_MAX)
        throw temporarilyUnavailable("Too many erasures at the same time. Try again.", error);
      const [row] = await all(ctx.db, selectSettingsSnapshot({ appId, mode }));
      requireClock(ctx, row?.settingsSnapshot ?? null);
      if (remembered.size >= REMEMBERED_ENVIRONMENTS_MAX) remembered.clear();
      remembered.set(key, knownIn(row?.settingsSnapshot ?? null));
      isFresh = true;
    }
  }
}

/** Sends guards and statements in one batch, and returns the rows of the statements. */
export async function batchWithGuards<const Statements extends readonly Statement[]>(
  db: Db,
  guards: readonly Statement[],
  statements: Statements,
): Promise<RowsOf<Statements>> {
  const rows: unknown[][] = await batch(db, [...guards, ...statements]);
  // The rows of the statements follow those of the guards.
  return rows.slice(guards.length) as RowsOf<Statements>;
}

/**
 * Runs a write about an id under its own name or, if the id is erased, under its tombstone's hash (E5). `write` sends the
 * guards with its batch, and is called again if the id was erased meanwhile. A write that stores `data` of the id deletes its
 * non-blocking tombstone. A write that only adds to an `audit` does not.
 */
export function underName<Answer>(
  ctx: TombstoneCtx,
  id: string,
  write: (name: string, guards: readonly Statement[]) => Promise<Answer>,
  kind: "data" | "audit" = "data",
): Promise<Answer> {
  const send = async (fingerprints: TombstoneSecrets, guard: Statement) => {
    const erased = (await findErased(ctx, fingerprints, [id])).get(id);
    if (erased !== undefined && (erased.blocks || kind === "audit")) return write(erased.hash, [guard]);
    const [ids, mentioned] = kind === "audit" ? [[], [id]] : [[id], []];
    return write(id, [guard, ...(await personGuards(ctx, fingerprints, ids, mentioned))]);
  };
  return attempt(ctx, () => withTombstones(ctx, send, { withLifts: false }));
}
