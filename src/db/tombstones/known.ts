import { temporarilyUnavailable } from "../../errors.ts";
import { requireClock } from "../clock.ts";
import { constraintOf } from "../constraint.ts";
import { readFeatures } from "../features.ts";
import { retryOnConflict } from "../retry-on-conflict.ts";
import { all, batch, type Db, fragment, type RowsOf, type Statement, statement } from "../sql.ts";
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

type Of = { appId: string; mode: string };

const guardOf = fragment`INSERT INTO guards (name, holds)
  SELECT 'tombstones', json_array(features -> '$.tombstones', features -> '$.lifts') = :standing
    AND features -> '$.clock' IS :clock
  FROM environments`;
const guardStanding = statement<{ id: number; standing: string; clock: string | null }>`${guardOf} WHERE id = :id`;
const guardStandingOf = statement<
  Of & { standing: string; clock: string | null }
>`${guardOf} WHERE app_id = :appId AND mode = :mode`;

const selectFeatures = statement<Of, { features: string | null }>`
  SELECT features FROM environments WHERE app_id = :appId AND mode = :mode`;

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
  for (let count = 1; ; count++) {
    const { standing, text, lifts } = known.get(key) ?? NOTHING;
    try {
      const values = { standing: text, clock: ctx.clock };
      const guard = id === undefined ? guardStandingOf({ appId, mode, ...values }) : guardStanding({ id, ...values });
      return await attempt(standing, guard, lifts);
    } catch (error) {
      if (constraintOf(error) !== "guard_tombstones") throw error;
      if (count === ATTEMPTS_MAX) throw temporarilyUnavailable("Too many erasures at the same time. Try again.", error);
      const [row] = await all(ctx.db, selectFeatures({ appId, mode }));
      requireClock(ctx, row?.features ?? null);
      if (known.size >= environmentsMax) known.clear();
      known.set(key, knownIn(row?.features ?? null));
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
