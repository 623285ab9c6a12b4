import { type Decimal, decimal, times } from "./decimal.ts";

/** The costs of a model in US dollars a million units of each meter. */
export type Costs = Readonly<Record<string, Decimal>>;

/** A model of a public list. */
export interface ListedModel {
  /** The name that `--models` is compared with. */
  readonly name: string;
  /** The model's name in rules. */
  readonly model: string;
  readonly costs: Costs;
  /** Dearer costs of requests whose prompt is above so many tokens. */
  readonly steps: readonly { readonly above: number; readonly costs: Costs }[];
  /** Prices of the list that no meter stands for. */
  readonly unmapped: readonly string[];
}

type Fields = Readonly<Record<string, unknown>>;

const MILLION: Decimal = { digits: 1_000_000n, scale: 0 };

const LITELLM_METERS: Readonly<Record<string, string>> = {
  input_cost_per_token: "input",
  output_cost_per_token: "output",
  cache_read_input_token_cost: "cacheRead",
  cache_creation_input_token_cost: "cacheWrite",
  cache_creation_input_token_cost_above_1hr: "cacheWrite1h",
  input_cost_per_audio_token: "inputAudio",
  output_cost_per_audio_token: "outputAudio",
};

const MODELS_DEV_METERS: Readonly<Record<string, string>> = {
  input: "input",
  output: "output",
  cache_read: "cacheRead",
  cache_write: "cacheWrite",
  input_audio: "inputAudio",
  output_audio: "outputAudio",
};

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Returns a cost above 0. A cost of 0 is no price, because a list has it also where it does not know one. */
function costOf(value: unknown): Decimal | null {
  const found = typeof value === "string" ? decimal(value) : null;
  return found !== null && found.digits > 0n ? found : null;
}

function litellmModel(name: string, fields: Fields): ListedModel {
  const costs: Record<string, Decimal> = {};
  const steps = new Map<number, Record<string, Decimal>>();
  const unmapped: string[] = [];
  for (const [field, value] of Object.entries(fields)) {
    if (!field.includes("cost")) continue;
    const step = /^(.*)_above_(\d+)k_tokens$/.exec(field);
    const meter = LITELLM_METERS[step?.[1] ?? field];
    const cost = costOf(value);
    if (meter === undefined || cost === null) {
      if (!isSameAsOutput(field, value, fields)) unmapped.push(field);
      continue;
    }
    const above = Number(step?.[2] ?? 0) * 1_000;
    const place = step === null ? costs : (steps.get(above) ?? {});
    place[meter] = times(cost, MILLION);
    if (step !== null) steps.set(above, place);
  }
  return { name, model: name, costs, steps: [...steps].map(([above, each]) => ({ above, costs: each })), unmapped };
}

/** Reasoning is in the meter `output`, so its own price is told only where it differs. */
const isSameAsOutput = (field: string, value: unknown, fields: Fields): boolean =>
  field === "output_cost_per_reasoning_token" && value === fields.output_cost_per_token;

function modelsDevCosts(cost: Fields, unmapped: string[], prefix = ""): Record<string, Decimal> {
  const costs: Record<string, Decimal> = {};
  for (const [field, value] of Object.entries(cost)) {
    if (/^context_over_\d+k$/.test(field) || (field === "reasoning" && value === cost.output)) continue;
    const meter = MODELS_DEV_METERS[field];
    const found = costOf(value);
    if (meter === undefined || found === null) unmapped.push(prefix + field);
    else costs[meter] = found;
  }
  return costs;
}

function modelsDevModel(provider: string, model: string, { cost }: Fields): ListedModel {
  const unmapped: string[] = [];
  const fields = isFields(cost) ? cost : {};
  const costs = modelsDevCosts(fields, unmapped);
  const steps = Object.entries(fields).flatMap(([field, value]) => {
    const found = /^context_over_(\d+)k$/.exec(field);
    if (found === null || !isFields(value)) return [];
    return [{ above: Number(found[1]) * 1_000, costs: modelsDevCosts(value, unmapped, `${field}.`) }];
  });
  return { name: `${provider}/${model}`, model, costs, steps, unmapped };
}

/** Returns the models of LiteLLM's list, whose costs are a token, or of models.dev's, whose costs are a million tokens. */
export function modelsOf(source: "litellm" | "models.dev", list: unknown): ListedModel[] {
  const entries = Object.entries(isFields(list) ? list : {}).filter((entry): entry is [string, Fields] =>
    isFields(entry[1]),
  );
  if (source === "litellm") return entries.map(([name, fields]) => litellmModel(name, fields));
  return entries.flatMap(([provider, { models }]) =>
    Object.entries(isFields(models) ? models : {}).flatMap(([model, fields]) =>
      isFields(fields) ? [modelsDevModel(provider, model, fields)] : [],
    ),
  );
}
