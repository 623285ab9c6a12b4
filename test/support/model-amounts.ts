/** Amounts, times, usages and match rules of the models. */
export type Unit = "count" | "tokens" | "seconds" | "cents";
export type Quantities = { [U in Unit]?: number };
export type Use = { userId: string; event: string; model?: string; quantities?: Quantities };
export type Rule = { event?: string; model?: string };

const SCALE = { count: 1_000, tokens: 1_000, seconds: 1_000, cents: 1_000_000 };
export const UNITS = Object.keys(SCALE) as Unit[];
export const toSteps = (unit: Unit, amount: number) => BigInt(Math.round(amount * SCALE[unit]));
export const fromSteps = (unit: Unit, steps: bigint) => Number(steps) / SCALE[unit];
/** A time as the API writes it. The models do not use Purser's own function. */
export const timeText = (ms: number) => new Date(ms).toISOString();
/** An expiry as the API writes it: null if there is none. */
export const expiryText = (ms: number) => (ms === Infinity ? null : timeText(ms));
const asRegExp = (glob: string) => new RegExp(`^${glob.replaceAll(".", "\\.").replaceAll("*", ".*")}$`);
const fits = (glob: string, name: string | undefined) => name !== undefined && asRegExp(glob).test(name);
export const matches = ({ matches: rules }: { matches: readonly Rule[] }, { event, model }: Use) =>
  rules.length === 0 || rules.some((r) => fits(r.event ?? "*", event) && (!r.model || fits(r.model, model)));
