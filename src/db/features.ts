import { and, eq, type SQL, sql } from "drizzle-orm";
import { drizzle, fields, hasRow, insertFrom, query, scalar, type ValueOf } from "./query.ts";
import { environments } from "./schema.ts";
import type { Statement } from "./sql.ts";
import { guards } from "./views.ts";

/**
 * The optional features that an environment uses, as JSON in `environments.features`. Each feature has one part, whose shape the
 * feature's own room defines. Null: no feature, and no cost of any.
 */
export interface Features {
  /** The enabled endpoints. */
  readonly webhooks?: unknown;
  readonly alerts?: unknown;
  readonly notices?: unknown;
  /** The usage limits, oldest first. */
  readonly limits?: unknown;
  /** Present while the environment has tombstones of erased ids. */
  readonly tombstones?: unknown;
  /** The test clock (D3). */
  readonly clock?: unknown;
  /** How many erasures were lifted. A lift makes an isolate discard what it remembers from before the erasure. */
  readonly lifts?: unknown;
}

const NO_FEATURES: Features = {};
/** The last parsed texts. An environment's text seldom changes. */
const knownFeatures = new Map<string, Features>();
const knownMax = 100;

export function readFeatures(text: string | null): Features {
  if (text === null) return NO_FEATURES;
  const found = knownFeatures.get(text);
  if (found !== undefined) return found;
  // Only `changeFeature` writes this text.
  const features = JSON.parse(text) as Features;
  if (knownFeatures.size >= knownMax) knownFeatures.clear();
  knownFeatures.set(text, features);
  return features;
}

type OfEnvironment = { environmentId: number };
type OfFeatures = OfEnvironment & { features: string | null };

const isEnvironment = (value: ValueOf<OfEnvironment>) => eq(environments.id, value("environmentId"));

/** The features of the environment, as a column of a query. Reads one row. */
export const featuresOf = (value: ValueOf<OfEnvironment>) =>
  scalar(drizzle.select(fields(environments, "features")).from(environments).where(isEnvironment(value)));

/** Whether the environment's features still equal the given text. */
export const hasFeatures = (value: ValueOf<OfFeatures>): SQL =>
  hasRow(environments, and(isEnvironment(value), sql`${environments.features} IS ${value("features")}`));

/** Aborts the batch with `guard_environment` when the environment's features no longer equal the given text. */
export const guardFeatures = query((value: ValueOf<OfFeatures>) =>
  insertFrom(guards, { name: sql`'environment'`, holds: hasFeatures(value) }, sql``),
);

const setFeature = query((value: ValueOf<OfEnvironment & { path: string; part: string }>) => {
  const whole = sql`coalesce(${environments.features}, '{}')`;
  const features = sql`json_set(${whole}, ${value("path")}, json(${value("part")}))`;
  return drizzle.update(environments).set({ features }).where(isEnvironment(value));
});

const removeFeature = query((value: ValueOf<OfEnvironment & { path: string }>) => {
  const features = sql`nullif(json_remove(${environments.features}, ${value("path")}), '{}')`;
  return drizzle.update(environments).set({ features }).where(isEnvironment(value));
});

/** Sets a part of an environment's features; null removes it. Send it in the batch that changes the described rows. */
export function changeFeature(environmentId: number, name: keyof Features, part: object | null): Statement {
  const path = `$.${name}`;
  return part === null
    ? removeFeature({ environmentId, path })
    : setFeature({ environmentId, path, part: JSON.stringify(part) });
}
