import { and, eq, type SQL, sql } from "drizzle-orm";
import { PurserError, temporarilyUnavailable } from "../errors.ts";
import { rememberPerObject } from "../lib/memory.ts";
import type { Environment } from "../runtime.ts";
import { attempt, constraintOf } from "./attempt.ts";
import { readFeatures, requireClock } from "./features.ts";
import { drizzle, fields, insertFrom, query, type ValueOf } from "./query.ts";
import { environments } from "./schema.ts";
import { all, batch, type Db, type RowsOf, type Statement } from "./sql.ts";
import {
  findErased,
  personGuards,
  type TombstoneCtx,
  type TombstoneSecrets,
  tombstoneSecretsIn,
} from "./tombstones.ts";
import { guards } from "./views.ts";

/** The tombstones of each environment as this isolate last read them. A batch with outdated ones aborts. */
const memoryOf = rememberPerObject(() => new Map<string, Known>());
const REMEMBERED_ENVIRONMENTS_MAX = 1_000;
const TOMBSTONE_ATTEMPTS_MAX = 8;

interface Known {
  readonly standing: TombstoneSecrets;
  /** The text that the guard compares: the secrets of the tombstones, and the number of lifted erasures. */
  readonly text: string;
  readonly lifts: unknown;
}
const KNOWN_NOTHING: Known = { standing: [], text: "[null,null]", lifts: null };

function knownIn(features: string | null): Known {
  const { tombstones = null, lifts = null } = readFeatures(features);
  return { standing: tombstoneSecretsIn(features), text: JSON.stringify([tombstones, lifts]), lifts };
}

type OfApp = { appId: string; mode: Environment["mode"] };
type Remembered = { standing: string; clock: string | null };

const isEnvironmentOfApp = (value: ValueOf<OfApp>) =>
  and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));

/** Aborts the batch with `guard_tombstones` when the environment's tombstones differ from the remembered ones. */
const guard = (value: ValueOf<Remembered>, which: SQL | undefined): SQL => {
  const { features } = environments;
  const standing = sql`json_array(${features} -> '$.tombstones', ${features} -> '$.lifts')`;
  const holds = sql`${standing} = ${value("standing")} AND ${features} -> '$.clock' IS ${value("clock")}`;
  return insertFrom(guards, { name: sql`'tombstones'`, holds }, sql`FROM ${environments} WHERE ${which}`);
};
const guardTombstones = query((value: ValueOf<Remembered & { id: number }>) =>
  guard(value, eq(environments.id, value("id"))),
);
const guardTombstonesOf = query((value: ValueOf<Remembered & OfApp>) => guard(value, isEnvironmentOfApp(value)));

const selectFeatures = query((value: ValueOf<OfApp>) =>
  drizzle.select(fields(environments, "features")).from(environments).where(isEnvironmentOfApp(value)),
);

const tombstonesKey = ({ environment: { appId, mode } }: TombstoneCtx): string => `${appId} ${mode}`;

/** The guard's text for this isolate's next write. Everything that the isolate remembers of ids is valid under it. */
export const knownText = (ctx: TombstoneCtx): string =>
  memoryOf(ctx.isolate).get(tombstonesKey(ctx))?.text ?? KNOWN_NOTHING.text;

/**
 * Runs a write that does not read the environment's features first, such as a consent. `send` gets the remembered tombstones,
 * at first none, and sends its batch with `guard`. If they are outdated, the batch aborts, the features are read, and `send` is
 * called again. Throws `clockMoved` when the test clock has changed (D3).
 */
export async function withTombstones<Answer>(
  ctx: TombstoneCtx,
  send: (standing: TombstoneSecrets, guard: Statement, lifts: unknown) => Promise<Answer>,
): Promise<Answer> {
  const known = memoryOf(ctx.isolate);
  const { id, appId, mode } = ctx.environment;
  const key = tombstonesKey(ctx);
  let isFresh = false;
  for (let count = 1; ; count++) {
    const { standing, text, lifts } = known.get(key) ?? KNOWN_NOTHING;
    try {
      const values = { standing: text, clock: ctx.clock };
      const guard =
        id === undefined ? guardTombstonesOf({ appId, mode, ...values }) : guardTombstones({ id, ...values });
      return await send(standing, guard, lifts);
    } catch (error) {
      // A refusal must not rely on memory: tombstones of a lost secret may have been deleted.
      const isRefusal = error instanceof PurserError && error.code === "erasure_unavailable";
      if (isRefusal ? isFresh : constraintOf(error) !== "guard_tombstones") throw error;
      if (count === TOMBSTONE_ATTEMPTS_MAX)
        throw temporarilyUnavailable("Too many erasures at the same time. Try again.", error);
      const [row] = await all(ctx.db, selectFeatures({ appId, mode }));
      requireClock(ctx, row?.features ?? null);
      if (known.size >= REMEMBERED_ENVIRONMENTS_MAX) known.clear();
      known.set(key, knownIn(row?.features ?? null));
      isFresh = true;
    }
  }
}

/** Sends statements after guards, and returns the rows of the statements only. */
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
 * Runs a write about an id under its own name or, if erased, under its tombstone's hash (E5). `write` sends the guards with its
 * batch, and is repeated when the id was erased meanwhile. A lift changes `lifts`. A write that is `held` for the id deletes its
 * non-blocking tombstone; a write that records a `read` does not.
 */
export function underName<Answer>(
  ctx: TombstoneCtx,
  id: string,
  write: (name: string, guards: readonly Statement[], lifts: unknown) => Promise<Answer>,
  of: "held" | "read" = "held",
): Promise<Answer> {
  return attempt(ctx, () =>
    withTombstones(ctx, async (standing, guard, lifts) => {
      const erased = (await findErased(ctx, standing, [id])).get(id);
      if (erased !== undefined && (erased.blocks || of === "read")) return write(erased.hash, [guard], lifts);
      const [ids, mentioned] = of === "read" ? [[], [id]] : [[id], []];
      return write(id, [guard, ...(await personGuards(ctx, standing, ids, mentioned))], lifts);
    }),
  );
}
