import { parseJson } from "../../lib/json.ts";
import { exactAmount, meterOf } from "./amount.ts";

/** The meters of a request, each as its shortest decimal (PR3). */
export type SentMeters = Readonly<Record<string, string>>;

/** Meters in the form of the API. A number that a double cannot represent is a raw JSON value. */
export type MeterAmounts = { readonly [name: string]: number };

/** Returns a meter in thousandths as its shortest decimal. */
export const meterText = (thousandths: bigint): string => JSON.stringify(exactAmount("count", thousandths));

/** Returns meters as the JSON that is stored, with all their digits. */
export const metersJson = (meters: SentMeters): string =>
  `{${Object.entries(meters)
    .map(([name, text]) => `"${name}":${text}`)
    .join(",")}}`;

/** Returns stored meters in the form of the API. */
export const presentMeters = (stored: string | null): MeterAmounts | null =>
  stored === null ? null : (parseJson(stored) as MeterAmounts);

/** Returns stored meters as they were sent. */
export const readSentMeters = (stored: string): SentMeters =>
  Object.fromEntries(Object.entries(presentMeters(stored) ?? {}).map(([name, value]) => [name, JSON.stringify(value)]));

/** Returns the meters of a request in thousandths. */
export const meterThousandths = (meters: SentMeters): ReadonlyMap<string, bigint> =>
  new Map(Object.entries(meters).map(([name, text]) => [name, meterOf(text) ?? 0n]));
