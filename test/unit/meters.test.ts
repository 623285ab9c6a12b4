import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type Meters,
  metersOf,
  metersOfAiSdk,
  metersOfAnthropic,
  metersOfGemini,
  metersOfOpenAIChat,
  metersOfOpenAIResponses,
} from "../../clients/typescript/src/meters.ts";

const CHAT = {
  prompt_tokens: 2_006,
  completion_tokens: 300,
  total_tokens: 2_306,
  prompt_tokens_details: { cached_tokens: 1_920, audio_tokens: 0, image_tokens: 40 },
  completion_tokens_details: { reasoning_tokens: 192, audio_tokens: 0, accepted_prediction_tokens: 0 },
};
const SPOKEN = {
  prompt_tokens: 120,
  completion_tokens: 90,
  total_tokens: 210,
  prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 30, audio_tokens: 50 },
  completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 70 },
};
const RESPONSES = {
  input_tokens: 2_006,
  input_tokens_details: { cached_tokens: 1_920, cache_write_tokens: 6 },
  output_tokens: 300,
  output_tokens_details: { reasoning_tokens: 192 },
  total_tokens: 2_306,
};
const ANTHROPIC = {
  input_tokens: 21,
  cache_creation_input_tokens: 556,
  cache_creation: { ephemeral_5m_input_tokens: 456, ephemeral_1h_input_tokens: 100 },
  cache_read_input_tokens: 1_000,
  output_tokens: 503,
  output_tokens_details: { thinking_tokens: 400 },
  server_tool_use: { web_search_requests: 1, web_fetch_requests: 0 },
  service_tier: "standard",
};
const ANTHROPIC_PLAIN = {
  input_tokens: 10,
  cache_creation: null,
  cache_creation_input_tokens: null,
  cache_read_input_tokens: null,
  output_tokens: 5,
  output_tokens_details: null,
};
const AI_SDK = {
  inputTokens: 2_006,
  inputTokenDetails: { noCacheTokens: 80, cacheReadTokens: 1_920, cacheWriteTokens: 6 },
  outputTokens: 300,
  outputTokenDetails: { textTokens: 108, reasoningTokens: 192 },
  totalTokens: 2_306,
  raw: { anything: 1 },
};
const AI_SDK_PROVIDER = {
  inputTokens: { total: 2_006, noCache: 80, cacheRead: 1_920, cacheWrite: 6 },
  outputTokens: { total: 300, text: 108, reasoning: 192 },
};
const GEMINI = {
  promptTokenCount: 100,
  cachedContentTokenCount: 60,
  candidatesTokenCount: 20,
  thoughtsTokenCount: 30,
  toolUsePromptTokenCount: 5,
  totalTokenCount: 155,
  promptTokensDetails: [
    { modality: "TEXT", tokenCount: 80 },
    { modality: "AUDIO", tokenCount: 20 },
  ],
  cacheTokensDetails: [{ modality: "AUDIO", tokenCount: 8 }],
};

const KNOWN: readonly (readonly [string, object, (usage: object) => Meters, Meters])[] = [
  ["OpenAI's Chat Completions", CHAT, metersOfOpenAIChat, { input: 86, cacheRead: 1_920, output: 300 }],
  [
    "OpenAI's Chat Completions with audio",
    SPOKEN,
    metersOfOpenAIChat,
    { input: 20, cacheRead: 20, cacheWrite: 30, inputAudio: 50, output: 20, outputAudio: 70 },
  ],
  [
    "OpenAI's Responses",
    RESPONSES,
    metersOfOpenAIResponses,
    { input: 80, cacheRead: 1_920, cacheWrite: 6, output: 300 },
  ],
  [
    "Anthropic's Messages",
    ANTHROPIC,
    metersOfAnthropic,
    { input: 21, cacheRead: 1_000, cacheWrite: 456, cacheWrite1h: 100, output: 503 },
  ],
  ["Anthropic's Messages without a cache", ANTHROPIC_PLAIN, metersOfAnthropic, { input: 10, output: 5 }],
  ["the AI SDK", AI_SDK, metersOfAiSdk, { input: 80, cacheRead: 1_920, cacheWrite: 6, output: 300 }],
  [
    "a provider of the AI SDK",
    AI_SDK_PROVIDER,
    metersOfAiSdk,
    { input: 80, cacheRead: 1_920, cacheWrite: 6, output: 300 },
  ],
  ["Gemini", GEMINI, metersOfGemini, { input: 33, cacheRead: 60, inputAudio: 12, output: 50 }],
];

const total = (meters: Meters): number =>
  Object.values(meters).reduce((sum: number, tokens: number) => sum + tokens, 0);

it.each(KNOWN)("metersOf puts every token that %s reports into one meter", (_, usage, byName, meters) => {
  expect(metersOf(usage)).toEqual(meters);
  expect(byName(usage)).toEqual(meters);
});

it("metersOf counts as many tokens as the provider's total, for any usage that adds up", () => {
  const tokens = fc.nat(1_000_000);
  fc.assert(
    fc.property(tokens, tokens, tokens, tokens, tokens, (fresh, read, written, text, thought) => {
      const [input, output] = [fresh + read + written, text + thought];
      const details = { cached_tokens: read, cache_write_tokens: written };
      const usages = [
        { prompt_tokens: input, completion_tokens: output, prompt_tokens_details: details },
        { input_tokens: input, output_tokens: output, input_tokens_details: details },
        {
          input_tokens: fresh,
          cache_read_input_tokens: read,
          cache_creation_input_tokens: written,
          output_tokens: output,
        },
        {
          inputTokens: { total: input, cacheRead: read, cacheWrite: written },
          outputTokens: { total: output, reasoning: thought },
        },
        {
          promptTokenCount: fresh + read,
          cachedContentTokenCount: read,
          candidatesTokenCount: text,
          thoughtsTokenCount: thought,
          toolUsePromptTokenCount: written,
        },
      ];
      for (const usage of usages) expect(total(metersOf(usage))).toBe(input + output);
    }),
  );
});

it("metersOf takes the lives of Anthropic's cache apart only when it reports them", () => {
  expect(metersOf({ ...ANTHROPIC, cache_creation: null })).toEqual({
    input: 21,
    cacheRead: 1_000,
    cacheWrite: 556,
    output: 503,
  });
});

it("metersOf adds the tokens of Anthropic's compaction, and leaves an advisor's out", () => {
  const iterations = [
    { ...ANTHROPIC_PLAIN, type: "message" },
    { ...ANTHROPIC_PLAIN, type: "compaction", input_tokens: 1_000 },
    { ...ANTHROPIC_PLAIN, type: "advisor_message", model: "another" },
  ];
  expect(metersOf({ ...ANTHROPIC_PLAIN, iterations })).toEqual({ input: 1_010, output: 10 });
});

it.each([
  [{ ...CHAT, prompt_tokens: 1_000, total_tokens: 1_300 }, "prompt_tokens is 1000"],
  [{ ...CHAT, total_tokens: 2_500 }, "total_tokens is 2500"],
  [{ ...CHAT, completion_tokens: 100, total_tokens: 2_106 }, "completion_tokens is 100"],
  [{ ...RESPONSES, input_tokens: 7, total_tokens: 307 }, "input_tokens is 7"],
  [{ ...RESPONSES, output_tokens: 100, total_tokens: 2_106 }, "output_tokens is 100"],
  [{ ...ANTHROPIC, cache_creation_input_tokens: 7 }, "cache_creation_input_tokens is 7"],
  [{ ...ANTHROPIC, output_tokens: 7 }, "output_tokens is 7"],
  [{ ...ANTHROPIC, input_tokens: null }, "no input_tokens"],
  [{ ...AI_SDK, inputTokens: 7, totalTokens: 307 }, "inputTokens is 7"],
  [{ ...AI_SDK, inputTokens: 3_000, totalTokens: 3_300 }, "noCacheTokens is 80"],
  [{ ...AI_SDK, inputTokens: undefined }, "no inputTokens"],
  [{ ...GEMINI, totalTokenCount: 125 }, "totalTokenCount is 125"],
  [{ ...GEMINI, promptTokenCount: 50, totalTokenCount: 105 }, "promptTokenCount is 50"],
  [{ inputTokens: 9, outputTokens: 1, cachedInputTokens: 4 }, "Version 5"],
  [{ ...CHAT, prompt_tokens: -1 }, "below 0"],
  [{ ...CHAT, prompt_tokens: 1.5 }, "not a number of tokens"],
  [{ ...CHAT, prompt_tokens: Number.NaN }, "not a number of tokens"],
  [{ ...CHAT, prompt_tokens: true }, "not a number of tokens"],
  [{ ...CHAT, prompt_tokens: "9" }, "not a number of tokens"],
  [{ ...RESPONSES, cache_read_input_tokens: 1 }, "of OpenAI and of Anthropic"],
  [{ input_tokens: 9, output_tokens: 1, input_token_details: {} }, "known shape"],
  [{ tokens: 9 }, "known shape"],
  [null as never, "known shape"],
])("metersOf throws for usage that does not add up, or that it does not know: %#", (usage, message) => {
  expect(() => metersOf(usage)).toThrow(new RegExp(message));
});
