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
  /** Other prices for the same meters, such as those of a priority tier or of a region. */
  readonly tiers: readonly string[];
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

/** Tokens that are part of a meter with a price, so that their own price is told only where it differs. */
const PART_OF: Readonly<Record<string, string>> = {
  output_cost_per_reasoning_token: "output_cost_per_token",
  output_cost_per_image_token: "output_cost_per_token",
  input_cost_per_image_token: "input_cost_per_token",
  input_cost_per_token_cache_hit: "cache_read_input_token_cost",
};

type Steps = Map<number, Record<string, Decimal>>;

/** Adds the costs that have a meter, and the names of the others. */
function addLitellmCosts(fields: Fields, steps: Steps, above: number, unmapped: Set<string>, tiers: Set<string>): void {
  for (const [field, value] of Object.entries(fields)) {
    const multiplier = /^regional_processing_uplift_multiplier_(.+)$/.exec(field);
    if (multiplier?.[1] !== undefined) tiers.add(multiplier[1]);
    if (!field.includes("cost")) continue;
    const [, base = "", step, tier] = /^(.+?)(?:_above_(\d+)k_tokens)?(?:_(batches|flex|priority))?$/.exec(field) ?? [];
    const meter = LITELLM_METERS[base];
    const cost = costOf(value);
    if (tier !== undefined) tiers.add(tier);
    else if (meter !== undefined && cost !== null) {
      const from = step === undefined ? above : Number(step) * 1_000;
      steps.set(from, { ...steps.get(from), [meter]: times(cost, MILLION) });
    } else {
      const whole = fields[PART_OF[field] ?? ""];
      if (costOf(whole) === null) unmapped.add(field);
      else if (value !== whole) tiers.add(field);
    }
  }
}

function litellmModel(name: string, fields: Fields): ListedModel {
  const steps: Steps = new Map();
  const [unmapped, tiers] = [new Set<string>(), new Set<string>()];
  addLitellmCosts(fields, steps, 0, unmapped, tiers);
  const ranges = Array.isArray(fields.tiered_pricing) ? fields.tiered_pricing : [];
  for (const each of ranges.filter(isFields)) {
    const above = Number(Array.isArray(each.range) ? each.range[0] : Number.NaN);
    if (Number.isSafeInteger(above) && above >= 0) addLitellmCosts(each, steps, above, unmapped, tiers);
    else unmapped.add("tiered_pricing");
  }
  const extra = isFields(fields.provider_specific_entry) ? fields.provider_specific_entry : {};
  for (const [tier, factor] of Object.entries(extra)) if (costOf(factor) !== null) tiers.add(tier);
  const provider = String(fields.litellm_provider ?? "");
  const [first = "", ...rest] = name.split("/");
  // The provider in front of a name is LiteLLM's own: the model answers by the rest.
  const model = rest.length > 0 && first !== "" && provider.startsWith(first) ? rest.join("/") : name;
  return { name, model, ...parted(steps), unmapped: [...unmapped], tiers: [...tiers] };
}

const parted = (all: Steps) => ({
  costs: all.get(0) ?? {},
  steps: [...all].flatMap(([above, costs]) => (above > 0 ? [{ above, costs }] : [])),
});

function modelsDevCosts(cost: Fields, unmapped: Set<string>, prefix = ""): Record<string, Decimal> {
  const costs: Record<string, Decimal> = {};
  for (const [field, value] of Object.entries(cost)) {
    if (/^context_over_\d+k$/.test(field) || ["tier", "tiers", "reasoning"].includes(field)) continue;
    const meter = MODELS_DEV_METERS[field];
    const found = costOf(value);
    if (meter === undefined || found === null) unmapped.add(prefix + field);
    else costs[meter] = found;
  }
  return costs;
}

/** Returns the steps of `tiers`, which say the exact size, or else of `context_over_200k`, which larger sizes have too. */
function modelsDevSteps(cost: Fields, unmapped: Set<string>): { above: number; costs: Costs }[] {
  if (Array.isArray(cost.tiers))
    return cost.tiers.filter(isFields).flatMap((each) => {
      const { type = "context", size } = isFields(each.tier) ? each.tier : {};
      const above = Number(size);
      if (type === "context" && Number.isSafeInteger(above) && above > 0)
        return [{ above, costs: modelsDevCosts(each, unmapped, `tier ${above}: `) }];
      unmapped.add("tiers");
      return [];
    });
  return Object.entries(cost).flatMap(([field, value]) => {
    const found = /^context_over_(\d+)k$/.exec(field);
    if (found === null || !isFields(value)) return [];
    return [{ above: Number(found[1]) * 1_000, costs: modelsDevCosts(value, unmapped, `${field}.`) }];
  });
}

function modelsDevModel(provider: string, model: string, { cost }: Fields): ListedModel {
  const unmapped = new Set<string>();
  const fields = isFields(cost) ? cost : {};
  const costs = modelsDevCosts(fields, unmapped);
  const steps = modelsDevSteps(fields, unmapped);
  // Reasoning is part of the output.
  const tiers = [undefined, fields.output].includes(fields.reasoning) ? [] : ["reasoning"];
  return { name: `${provider}/${model}`, model, costs, steps, unmapped: [...unmapped], tiers };
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
