import { and, eq, type SQL, sql } from "drizzle-orm";
import { PurserError, temporarilyUnavailable } from "../../errors.ts";
import type { Environment } from "../../runtime.ts";
import { requireClock } from "../clock.ts";
import { constraintOf } from "../constraint.ts";
import { readFeatures } from "../features.ts";
import { drizzle, fields, insertFrom, query, type ValueOf } from "../query.ts";
import { retryOnConflict } from "../retry-on-conflict.ts";
import { environments } from "../schema.ts";
import { all, batch, type Db, type RowsOf, type Statement } from "../sql.ts";
import { guards } from "../views.ts";
import { findErased, type Place, personGuards, type Standing, standingIn } from "./check.ts";

/** What an isolate knows of the tombstones of each environment. Nothing rests on it: the batch aborts where it is old. */
const memories = new WeakMap<object, Map<string, Known>>();
const environmentsMax = 1_000;
const ATTEMPTS_MAX = 8;

interface Known {
  readonly standing: Standing;
  /** What the guard compares, as SQL writes it: which tombstones stand, and how many erasures were lifted. */
  readonly text: string;
  readonly lifts: unknown;
}
const NOTHING: Known = { standing: [], text: "[null,null]", lifts: null };

function knownIn(features: string | null): Known {
  const { tombstones = null, lifts = null } = readFeatures(features);
  return { standing: standingIn(features), text: JSON.stringify([tombstones, lifts]), lifts };
}

type Of = { appId: string; mode: Environment["mode"] };
type Remembered = { standing: string; clock: string | null };

const isOf = (value: ValueOf<Of>) => and(eq(environments.appId, value("appId")), eq(environments.mode, value("mode")));

/** Aborts the batch with `guard_tombstones` where the environment's are not as they are remembered. */
const guard = (value: ValueOf<Remembered>, which: SQL | undefined): SQL => {
  const { features } = environments;
  const standing = sql`json_array(${features} -> '$.tombstones', ${features} -> '$.lifts')`;
  const holds = sql`${standing} = ${value("standing")} AND ${features} -> '$.clock' IS ${value("clock")}`;
  return insertFrom(guards, { name: sql`'tombstones'`, holds }, sql`FROM ${environments} WHERE ${which}`);
};
const guardStanding = query((value: ValueOf<Remembered & { id: number }>) =>
  guard(value, eq(environments.id, value("id"))),
);
const guardStandingOf = query((value: ValueOf<Remembered & Of>) => guard(value, isOf(value)));

const selectFeatures = query((value: ValueOf<Of>) =>
  drizzle.select(fields(environments, "features")).from(environments).where(isOf(value)),
);

const keyOf = ({ environment: { appId, mode } }: Place): string => `${appId} ${mode}`;

/** What a write of this isolate is guarded by now: whatever it remembers of ids was so under it. */
export const knownText = (ctx: Place): string => memories.get(ctx.isolate)?.get(keyOf(ctx))?.text ?? NOTHING.text;

/**
 * Runs a write that does not read an environment's features first (consent, analytics, the audit of exports). `attempt` is given
 * what this isolate knows of its tombstones, none at first, and sends its batch with `guard`: where that is old, it aborts, the
 * features are read, and the attempt is made anew. So without tombstones it costs no trip. Throws `clockMoved` where the
 * environment has another test clock than `ctx` (D3).
 */
export async function withTombstones<Answer>(
  ctx: Place,
  attempt: (standing: Standing, guard: Statement, lifts: unknown) => Promise<Answer>,
): Promise<Answer> {
  const known = memories.get(ctx.isolate) ?? new Map<string, Known>();
  memories.set(ctx.isolate, known);
  const { id, appId, mode } = ctx.environment;
  const key = keyOf(ctx);
  let isFresh = false;
  for (let count = 1; ; count++) {
    const { standing, text, lifts } = known.get(key) ?? NOTHING;
    try {
      const values = { standing: text, clock: ctx.clock };
      const guard = id === undefined ? guardStandingOf({ appId, mode, ...values }) : guardStanding({ id, ...values });
      return await attempt(standing, guard, lifts);
    } catch (error) {
      // A refusal does not rest on memory: the tombstones of a lost secret may have been given up.
      const isRefusal = error instanceof PurserError && error.code === "erasure_unavailable";
      if (isRefusal ? isFresh : constraintOf(error) !== "guard_tombstones") throw error;
      if (count === ATTEMPTS_MAX) throw temporarilyUnavailable("Too many erasures at the same time. Try again.", error);
      const [row] = await all(ctx.db, selectFeatures({ appId, mode }));
      requireClock(ctx, row?.features ?? null);
      if (known.size >= environmentsMax) known.clear();
      known.set(key, knownIn(row?.features ?? null));
      isFresh = true;
    }
  }
}

/** Sends statements behind guards, and answers the rows of the statements alone. */
export async function batchBehind<const Statements extends readonly Statement[]>(
  db: Db,
  guards: readonly Statement[],
  statements: Statements,
): Promise<RowsOf<Statements>> {
  const rows: unknown[][] = await batch(db, [...guards, ...statements]);
  // The rest are the rows of the statements, in their order.
  return rows.slice(guards.length) as RowsOf<Statements>;
}

const ERASED = new Set(["guard_person", "tombstones_being_erased"] as const);

/**
 * Runs a write about an id under the name that it has: its own, or the hash of its tombstone (E5). `write` sends its batch with
 * the guards, by which it is made anew where the id was erased meanwhile. `lifts` is another where an erasure was lifted since.
 * A write of what is `held` ends a tombstone that only cuts. Of a write that tells of a `read` the id stays erased.
 */
export function underName<Answer>(
  ctx: Place,
  id: string,
  write: (name: string, guards: readonly Statement[], lifts: unknown) => Promise<Answer>,
  of: "held" | "read" = "held",
): Promise<Answer> {
  return retryOnConflict(ERASED, ctx.newId(""), () =>
    withTombstones(ctx, async (standing, guard, lifts) => {
      const erased = (await findErased(ctx, standing, [id])).get(id);
      if (erased !== undefined && (erased.blocks || of === "read")) return write(erased.hash, [guard], lifts);
      const [ids, mentioned] = of === "read" ? [[], [id]] : [[id], []];
      return write(id, [guard, ...(await personGuards(ctx, standing, ids, mentioned))], lifts);
    }),
  );
}
