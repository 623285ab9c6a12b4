/** Amounts, times, usages and match rules of the models. */
export type Unit = "count" | "tokens" | "seconds" | "cents";
export type Quantities = { [U in Unit]?: number };
export type Use = {
  userId: string;
  memberId?: string;
  event: string;
  model?: string;
  quantities?: Quantities;
  /** A usage with meters has the quantities of its price, once it is priced (PR3). */
  meters?: Readonly<Record<string, number>>;
  priceVersion?: number;
};
export type Rule = { event?: string; model?: string };

const SCALE = { count: 1_000, tokens: 1_000, seconds: 1_000, cents: 1_000_000 };
export const UNITS = Object.keys(SCALE) as Unit[];
export const toMinor = (unit: Unit, amount: number) => BigInt(Math.round(amount * SCALE[unit]));
/**
 * The minor units of a used quantity, from a decimal without an exponent or with one (C1). Computed as a fraction: `n` / 10^`places`. A
 * fraction of a step is rounded to 15 significant digits and then up.
 */
export function usedMinor(unit: Unit, decimal: string): bigint {
  const [mantissa = "", exponent = "0"] = decimal.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  let n = BigInt(whole + fraction);
  let places = BigInt(fraction.length) - BigInt(exponent);
  if (places < 0n) [n, places] = [n * 10n ** -places, 0n];
  const scale = BigInt(SCALE[unit]);
  if ((n * scale) % 10n ** places === 0n) return (n * scale) / 10n ** places;
  const extra = BigInt(Math.max(0, `${n}`.length - 15));
  const significant = (n + 10n ** extra / 2n) / 10n ** extra;
  return (significant * 10n ** extra * scale + 10n ** places - 1n) / 10n ** places;
}
/** A usage whose quantities are rounded. Its meters already are. */
export const roundedUse = (use: Use): Use => (use.quantities ? { ...use, quantities: rounded(use.quantities) } : use);
/** The quantities of a usage. With meters no count is implied (PR3). */
export const quantitiesOf = (use: Pick<Use, "quantities" | "meters">): Quantities =>
  use.meters === undefined ? { count: 1, ...use.quantities } : { ...use.quantities };
export const rounded = (quantities: Quantities): Quantities =>
  Object.fromEntries(
    UNITS.flatMap((unit) => {
      const amount = quantities[unit];
      return amount === undefined ? [] : [[unit, fromMinor(unit, usedMinor(unit, `${amount}`))]];
    }),
  );
/** Whether quantities were sent and all of them are 0 (U1). */
export const isFree = ({ quantities = {} }: Pick<Use, "quantities">) =>
  Object.keys(quantities).length > 0 && Object.values(quantities).every((amount) => amount === 0);
/** The quantities of a request as Purser compares them with those of a repeat. */
export const sentQuantities = (use: Pick<Use, "quantities" | "meters">) =>
  use.meters === undefined
    ? { meters: undefined, quantities: { ...quantitiesOf(use), ...(isFree(use) && { isFree: true }) } }
    : { meters: Object.entries(use.meters).toSorted(), quantities: undefined };
/** The quantities of a usage, in the order of the units, with the implied count (U1). */
const shownQuantities = (use: Pick<Use, "quantities" | "meters">): Quantities => {
  const sent = quantitiesOf(use);
  return Object.fromEntries(UNITS.filter((unit) => unit in sent).map((unit) => [unit, sent[unit]]));
};
/** The fields of a 402's details that tell the usage (PR6). */
export const usageDetails = (use: Pick<Use, "quantities" | "meters" | "priceVersion">) => ({
  quantities: shownQuantities(use),
  meters: use.meters ?? null,
  priceVersion: use.priceVersion ?? null,
});
export const fromMinor = (unit: Unit, minor: bigint) => Number(minor) / SCALE[unit];
/** A time as the API writes it. The models do not use Purser's own function. */
export const timeText = (ms: number) => new Date(ms).toISOString();
/** An expiry as the API writes it: null if there is none. */
export const expiryText = (ms: number) => (ms === Infinity ? null : timeText(ms));
const asRegExp = (glob: string) => new RegExp(`^${glob.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
export const fits = (glob: string, name: string | undefined) => name !== undefined && asRegExp(glob).test(name);
export const matches = ({ matches: rules }: { matches: readonly Rule[] }, { event, model }: Use) =>
  rules.length === 0 || rules.some((r) => fits(r.event ?? "*", event) && (!r.model || fits(r.model, model)));
