import type { Minor } from "../../db/schema.ts";
import { type Quantities, UNITS, type Unit } from "./amount.ts";
import type { SentMeters } from "./meters.ts";

/** Why a request's quantities may be a mistake (W16). Separate sets hold them, so that they do not change a request's hash. */
const quantitiesWithImpliedCount = new WeakSet<object>();

const unstatedQuantities = new WeakSet<object>();

const roundedQuantities = new WeakSet<object>();

/** Returns whether quantities with other units have a `count` of 1 only by default. */
export const impliesCount = (read: Quantities): boolean => quantitiesWithImpliedCount.has(read);

/** Returns whether a request named no quantity, so that there is only the implied `count` (PR3). */
export const isUnstated = (read: Quantities): boolean => unstatedQuantities.has(read);

/** Returns whether a quantity had to be rounded (C1). */
export const isRounded = (read: Quantities): boolean => roundedQuantities.has(read);

const roundedMeters = new WeakSet<object>();

/** Returns whether a meter had to be rounded (C1). */
export const areMetersRounded = (read: SentMeters): boolean => roundedMeters.has(read);

/** Each meter of a request as its shortest decimal, and whether it had to be rounded. */
type GivenMeters = Readonly<Record<string, { readonly text: string; readonly isRounded: boolean }>>;

/** Returns the meters of a request. */
export function readGivenMeters(given: GivenMeters): SentMeters {
  const read = Object.fromEntries(Object.entries(given).map(([name, { text }]) => [name, text]));
  if (Object.values(given).some(({ isRounded }) => isRounded)) roundedMeters.add(read);
  return read;
}

const COUNT_MINOR_DEFAULT = 1_000 as Minor;

/** Each quantity of a request in minor units, and whether it had to be rounded. */
type GivenQuantities = { readonly [U in Unit]?: { readonly minor: Minor; readonly isRounded: boolean } | undefined };

/** Returns the quantities of a request. `count` is 1 when it is absent, so it is always present (U1). */
export function readGivenQuantities(given: GivenQuantities): Quantities & { readonly count: Minor } {
  const minor: { [U in Unit]?: Minor } & { count: Minor } = { count: COUNT_MINOR_DEFAULT };
  const sent = Object.values(given).filter((used) => used !== undefined);
  for (const of of UNITS) {
    const used = given[of];
    if (used !== undefined) minor[of] = used.minor;
  }
  const isFree = sent.length > 0 && sent.every((used) => used.minor === 0);
  const read = isFree ? { ...minor, isFree } : minor;
  if (given.count === undefined && sent.length > 0) quantitiesWithImpliedCount.add(read);
  if (sent.length === 0) unstatedQuantities.add(read);
  if (sent.some((used) => used.isRounded)) roundedQuantities.add(read);
  return read;
}

/** The quantities or the meters of a usage, as they were sent. */
export interface SentUsage {
  readonly quantities?: Quantities | undefined;
  readonly meters?: SentMeters | undefined;
}

/** Adds the implied quantities of a usage that was sent with neither quantities nor meters (U1). */
export const withImplied = <Sent extends SentUsage>(sent: Sent): Sent =>
  sent.quantities === undefined && sent.meters === undefined ? { ...sent, quantities: readGivenQuantities({}) } : sent;
