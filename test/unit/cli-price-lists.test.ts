import { expect, it } from "vitest";
import { parseWithTexts, textOf } from "../../clients/cli/src/decimal.ts";
import { modelsOf } from "../../clients/cli/src/price-lists.ts";

function read(source: "litellm" | "models.dev", list: object) {
  return modelsOf(source, parseWithTexts(JSON.stringify(list))).map(({ costs, steps, ...rest }) => ({
    ...rest,
    costs: Object.fromEntries(Object.entries(costs).map(([meter, cost]) => [meter, textOf(cost)])),
    steps: steps.map(({ above, costs: own }) => [above, own.input && textOf(own.input)]),
  }));
}

it("LiteLLM's list leaves LiteLLM's own provider out of the model's name, and no other part of it", () => {
  const price = { input_cost_per_token: 1e-6, output_cost_per_token: 2e-6 };
  const models = read("litellm", {
    "xai/swift": { ...price, litellm_provider: "xai" },
    "vertex_ai/swift": { ...price, litellm_provider: "vertex_ai-some_models" },
    "openrouter/acme/swift": { ...price, litellm_provider: "openrouter" },
    "acme/swift": { ...price, litellm_provider: "bedrock" },
    swift: { ...price, litellm_provider: "openai" },
  });
  expect(models.map(({ model }) => model)).toEqual(["swift", "swift", "acme/swift", "acme/swift", "swift"]);
});

it("LiteLLM's list names service tiers, regions and dearer parts of a meter apart from usage that has no meter", () => {
  const [model] = read("litellm", {
    swift: {
      input_cost_per_token: 1e-6,
      output_cost_per_token: 2e-6,
      input_cost_per_token_priority: 2e-6,
      output_cost_per_token_above_200k_tokens_flex: 1e-6,
      output_cost_per_reasoning_token: 4e-6,
      input_cost_per_image_token: 1e-6,
      regional_processing_uplift_multiplier_eu: 1.1,
      provider_specific_entry: { fast: 6, schema: "none" },
      input_cost_per_image: 0.01,
      cache_read_input_token_cost: 0,
    },
  });
  expect(model).toMatchObject({
    tiers: ["priority", "flex", "output_cost_per_reasoning_token", "eu", "fast"],
    unmapped: ["input_cost_per_image", "cache_read_input_token_cost"],
    steps: [],
  });
});

it("LiteLLM's list reads ranges of prompts as steps, the first as the price itself", () => {
  const [model] = read("litellm", {
    owl: {
      tiered_pricing: [
        { range: [0, 32000.5 - 0.5], input_cost_per_token: 1e-6, output_cost_per_token: 5e-6 },
        { range: [32000, 128000], input_cost_per_token: 1.8e-6, output_cost_per_token: 9e-6 },
        { max_results_range: [0, 25], input_cost_per_query: 0.005 },
      ],
    },
  });
  expect(model).toMatchObject({ costs: { input: "1", output: "5" }, steps: [[32_000, "1.8"]] });
  expect(model?.unmapped).toEqual(["tiered_pricing"]);
});

const of = (cost: object) => read("models.dev", { acme: { models: { owl: { cost } } } })[0];

it("models.dev's list takes the exact sizes of tiers, not the old field that also stands for larger ones", () => {
  const dearer = { input: 6, output: 22.5 };
  const tiers = [{ ...dearer, tier: { type: "context", size: 272_000 } }];
  expect(of({ input: 3, output: 15, tiers, context_over_200k: dearer })?.steps).toEqual([[272_000, "6"]]);
  expect(of({ input: 3, output: 15, context_over_200k: dearer })?.steps).toEqual([[200_000, "6"]]);
});

it("models.dev's list names tiers of another kind, and reasoning at a price of its own", () => {
  const tiers = [{ input: 6, output: 9, tier: { type: "speed", size: 1 } }];
  expect(of({ input: 3, output: 15, reasoning: 20, tiers })).toMatchObject({
    unmapped: ["tiers"],
    tiers: ["reasoning"],
  });
  expect(of({ input: 3, output: 15, reasoning: 15 })).toMatchObject({ unmapped: [], tiers: [] });
});
