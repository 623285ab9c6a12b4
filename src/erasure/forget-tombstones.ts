import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import { requireEnvironment } from "../catalog/apps.ts";
import { insertAct, newAct } from "../catalog/audit.ts";
import { computed, drizzle, fields, hasRow, query, scalar, type ValueOf } from "../db/query.ts";
import { erasures, tombstones } from "../db/schema.ts";
import { all, batch } from "../db/sql.ts";
import { fingerprintsOf } from "../db/tombstones.ts";
import { invalid, PurserError } from "../errors.ts";
import type { AdminCtx } from "../runtime.ts";
import { leaveFeature } from "./receipt.ts";
import type { ForgetTombstonesOutput } from "./responses.ts";
import type { ForgetTombstonesInput } from "./schemas.ts";

type OfSecret = { environmentId: number; fingerprint: string };

const ofSecret = (value: ValueOf<OfSecret>) =>
  and(eq(erasures.environmentId, value("environmentId")), eq(erasures.fingerprint, value("fingerprint")));
const standingTombstones = (value: ValueOf<OfSecret>) => and(ofSecret(value), isNull(erasures.liftedAtMs));
const isRunning = (value: ValueOf<OfSecret>) =>
  hasRow(erasures, and(standingTombstones(value), isNull(erasures.completedAtMs)));

const ofErasures = (value: ValueOf<OfSecret>) =>
  and(
    eq(tombstones.environmentId, value("environmentId")),
    inArray(tombstones.erasureId, drizzle.select(fields(erasures, "id")).from(erasures).where(ofSecret(value))),
  );

const selectState = query((value: ValueOf<OfSecret>) =>
  drizzle
    .select(
      computed({
        isStanding: hasRow(erasures, standingTombstones(value)).mapWith(Boolean),
        isRunning: isRunning(value).mapWith(Boolean),
        tombstones: scalar(
          drizzle
            .select(computed({ count: sql<number>`count(*)` }))
            .from(tombstones)
            .where(ofErasures(value)),
        ),
      }),
    )
    .from(sql`(SELECT 1)`),
);
const auditTombstonesForgotten = insertAct<OfSecret>(
  (value) => sql`${hasRow(erasures, standingTombstones(value))} AND NOT ${isRunning(value)}`,
);
const setAllLifted = query((value: ValueOf<OfSecret & { nowMs: number }>) =>
  drizzle
    .update(erasures)
    .set({ liftedAtMs: value("nowMs", erasures.liftedAtMs) })
    .where(sql`${standingTombstones(value)} AND NOT ${isRunning(value)}`),
);
const deleteTombstonesOfSecret = query((value: ValueOf<OfSecret>) =>
  drizzle.delete(tombstones).where(sql`${ofErasures(value)} AND NOT ${isRunning(value)}`),
);

/**
 * Deletes the tombstones of a lost secret, so that the environment accepts writes again (E4). Their ids can be used again, as after a
 * lift. Throws `not_found`, `invalid_request` while the secret is set, and `changed_meanwhile` while an erasure with it runs.
 */
export async function forgetTombstones(
  admin: AdminCtx,
  appId: string,
  { mode, fingerprint }: ForgetTombstonesInput,
): Promise<ForgetTombstonesOutput> {
  const { id: environmentId } = await requireEnvironment(admin, appId, mode);
  if ((await fingerprintsOf(admin)).includes(fingerprint)) {
    throw invalid("fingerprint", "is that of a secret that is set: lift its erasures one by one instead");
  }
  const key = { environmentId, fingerprint };
  const act = newAct(admin, { appId, action: "tombstones.forgotten", target: fingerprint, details: { mode } });
  const [state] = await all(admin.db, selectState(key));
  if (state?.isRunning === true) throw stillRunning();
  if (state?.isStanding !== true) return { forgotten: 0 };
  await batch(admin.db, [
    auditTombstonesForgotten({ ...act, ...key }),
    setAllLifted({ ...key, nowMs: admin.now() }),
    deleteTombstonesOfSecret(key),
    leaveFeature({ environmentId }),
  ]);
  return { forgotten: state.tombstones ?? 0 };
}

const stillRunning = (): PurserError =>
  new PurserError(
    "changed_meanwhile",
    "An erasure under this secret is still running. Try again when it is completed.",
  );
