import { beforeAll, expect, it } from "vitest";
import { metersOf } from "../../../../clients/typescript/src/meters.ts";
import { makePricedSpender } from "../../../support/metered.ts";
import { changeReservation } from "../../../support/spender.ts";

/** Prices in cents of a million tokens, as the vendors publish them in dollars. */
const perMillion = (cents: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(cents).map(([meter, amount]) => [meter, { amount, units: 1_000_000 }]));
const tokens = (model: string, cents: Readonly<Record<string, number>>, when?: object) => ({
  ...{ event: "chat", model, unit: "cents", per: perMillion(cents) },
  ...(when === undefined ? {} : { when }),
});
/** A prompt is everything that the model reads. Longer ones are dearer as a whole. */
const isLong = (...meters: string[]) => ({ meters, above: 200_000 });
const CLAUDE_PROMPT = ["input", "cacheRead", "cacheWrite", "cacheWrite1h"];

const RULES = [
  // OpenAI: the version is named, so that `gpt-5` does not price `gpt-5-mini`.
  tokens("gpt-5", { input: 125, cacheRead: 12.5, output: 1_000 }),
  tokens("gpt-5-20*", { input: 125, cacheRead: 12.5, output: 1_000 }),
  tokens("gpt-5-mini*", { input: 25, cacheRead: 2.5, output: 200 }),
  tokens("gpt-4o", { input: 250, cacheRead: 125, output: 1_000 }),
  tokens("gpt-realtime", { input: 400, cacheRead: 40, output: 1_600, inputAudio: 3_200, outputAudio: 6_400 }),
  { event: "transcription", unit: "cents", per: { seconds: { amount: 0.6, units: 60 } } },
  { event: "speech", model: "tts-1", unit: "cents", per: { characters: { amount: 1_500, units: 1_000_000 } } },
  { event: "search", unit: "cents", per: { searches: { amount: 1_000, units: 1_000 } } },
  { event: "image", model: "dall-e-3", unit: "cents", per: { images: 4 } },
  { event: "image.hd", model: "dall-e-3", unit: "cents", perEvent: 8 },
  // Anthropic: two lives of the cache, and a dearer price above 200,000 tokens of prompt.
  tokens(
    "claude-sonnet-4-5*",
    { input: 600, cacheRead: 60, cacheWrite: 750, cacheWrite1h: 1_200, output: 2_250 },
    isLong(...CLAUDE_PROMPT),
  ),
  tokens("claude-sonnet-4-5*", { input: 300, cacheRead: 30, cacheWrite: 375, cacheWrite1h: 600, output: 1_500 }),
  tokens("claude-haiku-4-5*", { input: 100, cacheRead: 10, cacheWrite: 125, cacheWrite1h: 200, output: 500 }),
  tokens("claude-opus-4-1*", { input: 1_500, cacheRead: 150, cacheWrite: 1_875, cacheWrite1h: 3_000, output: 7_500 }),
  // Google: long prompts likewise; audio is another price than text.
  tokens("gemini-2.5-pro", { input: 250, cacheRead: 25, output: 1_500 }, isLong("input", "cacheRead")),
  tokens("gemini-2.5-pro", { input: 125, cacheRead: 12.5, output: 1_000 }),
  tokens("gemini-2.5-flash", { input: 30, inputAudio: 100, cacheRead: 3, output: 250 }),
  { event: "image", model: "gemini-2.5-flash-image", unit: "cents", per: { images: 3.9 } },
];

type Metered = Readonly<Partial<Record<string, number>>>;
const openAi = (input_tokens: number, cached_tokens: number, output_tokens: number) =>
  metersOf({
    ...{ input_tokens, input_tokens_details: { cached_tokens } },
    ...{ output_tokens, output_tokens_details: { reasoning_tokens: 0 }, total_tokens: input_tokens + output_tokens },
  });
const anthropic = (
  input_tokens: number,
  cache_read_input_tokens: number,
  [fiveMinutes, hour]: readonly [number, number],
  output_tokens: number,
) =>
  metersOf({
    ...{ input_tokens, cache_read_input_tokens, output_tokens },
    cache_creation_input_tokens: fiveMinutes + hour,
    cache_creation: { ephemeral_5m_input_tokens: fiveMinutes, ephemeral_1h_input_tokens: hour },
  });

const gemini = (
  promptTokenCount: number,
  cachedContentTokenCount: number,
  [candidatesTokenCount, thoughtsTokenCount]: readonly [number, number],
) => metersOf({ promptTokenCount, cachedContentTokenCount, candidatesTokenCount, thoughtsTokenCount });

/** Each amount is worked out by hand, in cents. */
const AMOUNTS: readonly (readonly [event: string, model: string, meters: Metered, cents: number])[] = [
  // 8,000 × 0.000125 + 24,000 × 0.0000125 + 1,500 × 0.001 = 1 + 0.3 + 1.5
  ["chat", "gpt-5", openAi(32_000, 24_000, 1_500), 2.8],
  ["chat", "gpt-5-2025-08-07", openAi(32_000, 24_000, 1_500), 2.8],
  // 0.000025 + 0.0000025 + 0.0002 = 0.0002275, rounded up once
  ["chat", "gpt-5-mini", openAi(2, 1, 1), 0.000228],
  // 1,000 × 0.00025 + 3,000 × 0.000125 + 200 × 0.001 = 0.25 + 0.375 + 0.2
  ["chat", "gpt-4o", openAi(4_000, 3_000, 200), 0.825],
  // 150 × 0.0004 + 2,000 × 0.00004 + 900 × 0.0032 + 60 × 0.0016 + 1,100 × 0.0064 = 0.06 + 0.08 + 2.88 + 0.096 + 7.04
  ["chat", "gpt-realtime", { input: 150, cacheRead: 2_000, inputAudio: 900, output: 60, outputAudio: 1_100 }, 10.156],
  // 0.6 cents a minute: 61.5 × 0.01, and 7.123 × 0.01
  ["transcription", "whisper-1", { seconds: 61.5 }, 0.615],
  ["transcription", "whisper-1", { seconds: 7.123 }, 0.07123],
  // 1,234 × 0.0015
  ["speech", "tts-1", { characters: 1_234 }, 1.851],
  // 10 dollars a thousand searches
  ["search", "gpt-5", { searches: 3 }, 3],
  ["image", "dall-e-3", { images: 3 }, 12],
  ["image.hd", "dall-e-3", { images: 1 }, 8],
  // 0.3 + 1.5 + 1.5 + 1.2 + 1.2
  ["chat", "claude-sonnet-4-5-20250929", anthropic(1_000, 50_000, [4_000, 2_000], 800), 5.7],
  // A prompt of exactly 200,000: 6 + 4.5 + 7.5 + 6 + 1.5
  ["chat", "claude-sonnet-4-5", anthropic(20_000, 150_000, [20_000, 10_000], 1_000), 25.5],
  // A token more makes all of it dearer, the output too: 12.0006 + 9 + 15 + 12 + 2.25
  ["chat", "claude-sonnet-4-5", anthropic(20_001, 150_000, [20_000, 10_000], 1_000), 50.2506],
  // 0.0333 + 0.00007 + 0.001375 + 0.0065
  ["chat", "claude-haiku-4-5", anthropic(333, 7, [11, 0], 13), 0.041245],
  // 12,345 × 0.015 + 6,789 × 0.075 = 185.175 + 509.175
  ["chat", "claude-opus-4-1", anthropic(123_450, 0, [0, 0], 67_890), 694.35],
  // A prompt of exactly 200,000: 23.75 + 0.125 + 2; with a token more 47.50025 + 0.25 + 3
  ["chat", "gemini-2.5-pro", gemini(200_000, 10_000, [1_500, 500]), 25.875],
  ["chat", "gemini-2.5-pro", gemini(200_001, 10_000, [2_000, 0]), 50.75025],
  // A minute of audio has 1,920 tokens: 258 × 0.00003 + 1,920 × 0.0001 + 120 × 0.00025 = 0.00774 + 0.192 + 0.03
  ["chat", "gemini-2.5-flash", { input: 258, inputAudio: 1_920, output: 120 }, 0.22974],
  ["image", "gemini-2.5-flash-image", { images: 4 }, 15.6],
];

let w: Awaited<ReturnType<typeof makePricedSpender>>;
beforeAll(async () => {
  w = await makePricedSpender([{ amountMinor: 2_000_000_000, unit: "cents" }]);
  await w.setPrices(RULES, { costs: RULES.map(({ unit: _, ...cost }) => cost) });
});

it.each(AMOUNTS)("%s with %s and the meters %j costs %d cents, in a preview, an event and a commit", async (...row) => {
  const [event, model, meters, cents] = row;
  const usage = { event, model, meters };
  const preview = await w.post("/api/v1/usage/price", usage);
  expect(preview.body).toMatchObject({ quantities: { cents }, priceVersion: 1 });
  const id = JSON.stringify(row);
  const recorded = await w.spend(id, usage);
  expect(recorded.body, JSON.stringify(recorded.body)).toMatchObject({ quantities: { cents }, uncovered: null });
  expect(recorded.body.debits.map(({ amount }: { amount: number }) => amount)).toEqual([cents]);
  const stored = (await w.get(`/api/v1/usage/events?eventId=${encodeURIComponent(id)}`)).body;
  expect(stored).toMatchObject({ quantities: { cents }, meters, cost: cents });
  // A hold is made with the wrong model and too little. The commit is priced by what was used.
  const held = await w.reserve({ reservationId: `res_${id}`, event, quantities: { cents: 0.000001 } });
  expect(held.status).toBe(200);
  const committed = await changeReservation(w, encodeURIComponent(`res_${id}`), "commit", {
    eventId: `${id}c`,
    model,
    meters,
  });
  expect(committed.body, JSON.stringify(committed.body)).toMatchObject({ quantities: { cents } });
});

it.each([
  ["chat", "gpt-5-pro", { input: 1 }, ["input"]],
  ["chat", "gpt-4o-mini", { input: 1, output: 1 }, ["input", "output"]],
  ["chat", "gpt-5", { input: 1, inputAudio: 1 }, ["inputAudio"]],
  ["chat", "gemini-2.5-flash", { input: 1, cacheWrite: 5 }, ["cacheWrite"]],
  ["image.hd", "dall-e-2", { images: 1 }, ["images"]],
])("%s with %s and the meters %j has no price", async (event, model, meters, missing) => {
  const { status, body } = await w.post("/api/v1/usage/price", { event, model, meters });
  expect([status, body.error?.code, body.error?.details?.meters]).toEqual([404, "price_not_found", missing]);
});
