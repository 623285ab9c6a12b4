import { fragment, type Statement, statement } from "./sql.ts";

/**
 * What an environment uses beyond keeping credits, as JSON in `environments.features`: one part for each feature, which its
 * owner describes. Null: none, so that such an environment pays for none.
 */
export interface Features {
  /** The endpoints that are on. */
  readonly webhooks?: unknown;
  readonly alerts?: unknown;
  readonly notices?: unknown;
  /** Present while ids of the environment are erased. */
  readonly tombstones?: unknown;
  /** The test clock (D3). */
  readonly clock?: unknown;
  /** How many erasures were lifted: what an isolate remembers of an id may be of before its erasure. */
  readonly lifts?: unknown;
}

const NONE: Features = {};
/** The texts that were read last. An environment's text seldom changes. */
const known = new Map<string, Features>();
const knownMax = 100;

export function readFeatures(text: string | null): Features {
  if (text === null) return NONE;
  const found = known.get(text);
  if (found !== undefined) return found;
  // Only `changeFeature` writes this text.
  const features = JSON.parse(text) as Features;
  if (known.size >= knownMax) known.clear();
  known.set(text, features);
  return features;
}

/** The features of the environment `:environmentId`, as a column of a query. Reads one row. */
export const featuresSql = fragment`(SELECT features FROM environments WHERE id = :environmentId)`;

/** Whether the environment's features are still `:features`. */
export const areFeaturesSql = fragment`EXISTS (SELECT 1 FROM environments WHERE id = :environmentId AND features IS :features)`;

/** Aborts the batch with `guard_environment` where the environment's features are no longer these. */
export const guardFeatures = statement<{ environmentId: number; features: string | null }>`
  INSERT INTO guards (name, holds) SELECT 'environment', ${areFeaturesSql}`;

const setFeature = statement<{ environmentId: number; path: string; part: string }>`
  UPDATE environments SET features = json_set(coalesce(features, '{}'), :path, json(:part)) WHERE id = :environmentId`;

const removeFeature = statement<{ environmentId: number; path: string }>`
  UPDATE environments SET features = nullif(json_remove(features, :path), '{}') WHERE id = :environmentId`;

/** Sets a part of an environment's features; null removes it. It belongs in the batch that changes what the part tells. */
export function changeFeature(environmentId: number, name: keyof Features, part: object | null): Statement {
  const path = `$.${name}`;
  return part === null
    ? removeFeature({ environmentId, path })
    : setFeature({ environmentId, path, part: JSON.stringify(part) });
}
