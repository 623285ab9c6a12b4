/**
 * Turns the usage that a provider reported into meters, with every token in exactly one of them. `metersOf` knows the provider by
 * the shape of its usage; each provider also has a function by name. Usage that does not add up throws `TypeError`, because charging
 * it would be a guess.
 */

/**
 * `cacheWrite` was written for five minutes, or for the provider's only lifetime. `output` contains reasoning. `input` and `output`
 * are always there, the others when they are not 0. An interface could not be sent as `meters`, which may have any names.
 */
export type Meters = {
  readonly input: number;
  readonly output: number;
  readonly cacheRead?: number;
  readonly cacheWrite?: number;
  readonly cacheWrite1h?: number;
  readonly inputAudio?: number;
  readonly outputAudio?: number;
};

type Fields = Readonly<Record<string, unknown>>;

const fieldsIn = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

/** Returns a number of tokens; 0 if it is absent or null. */
function count(usage: unknown, name: string): number {
  const value = fieldsIn(usage)[name] ?? 0;
  if (typeof value !== "number" || !Number.isSafeInteger(value)) {
    throw new TypeError(`${name} is ${String(value)}, not a number of tokens.`);
  }
  if (value < 0) throw new TypeError(`${name} is ${value}, below 0.`);
  return value;
}

/** Returns a number of tokens that the provider always reports. */
function required(usage: unknown, name: string): number {
  if ((fieldsIn(usage)[name] ?? null) === null) {
    throw new TypeError(`The usage has no ${name}. With a stream, give the usage of the final message.`);
  }
  return count(usage, name);
}

/** Returns what is left of a whole. Throws when its parts are above it. */
function rest(whole: number, parts: Readonly<Record<string, number>>, name: string): number {
  const left = Object.values(parts).reduce((sum, part) => sum - part, whole);
  if (left >= 0) return left;
  const listed = Object.entries(parts).flatMap(([part, tokens]) => (tokens > 0 ? [`${part} ${tokens}`] : []));
  throw new TypeError(`${name} is ${whole}, but its parts are more: ${listed.join(", ")}.`);
}

/** Throws if the reported total is not the sum, so that no token is lost. */
function assertTotal(usage: unknown, name: string, counted: number): void {
  if ((fieldsIn(usage)[name] ?? null) !== null && count(usage, name) !== counted) {
    throw new TypeError(`${name} is ${count(usage, name)}, but its parts are ${counted} in all.`);
  }
}

const meters = (input: number, output: number, others: Omit<Meters, "input" | "output">): Meters => ({
  input,
  output,
  ...Object.fromEntries(Object.entries(others).filter(([, tokens]) => tokens > 0)),
});

/**
 * Returns the meters of OpenAI's Chat Completions (`CompletionUsage`). `prompt_tokens` contains the cached, written and audio tokens
 * of `prompt_tokens_details`; `completion_tokens` contains reasoning and audio. Tokens of images stay in `input`.
 * https://developers.openai.com/api/docs/guides/prompt-caching
 */
export function metersOfOpenAIChat(usage: object): Meters {
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = fieldsIn(usage);
  const parts = {
    cacheRead: count(prompt, "cached_tokens"),
    cacheWrite: count(prompt, "cache_write_tokens"),
    inputAudio: count(prompt, "audio_tokens"),
  };
  const input = required(usage, "prompt_tokens");
  const output = required(usage, "completion_tokens");
  const spoken = { outputAudio: count(completion, "audio_tokens") };
  rest(output, { ...spoken, reasoning_tokens: count(completion, "reasoning_tokens") }, "completion_tokens");
  assertTotal(usage, "total_tokens", input + output);
  return meters(rest(input, parts, "prompt_tokens"), rest(output, spoken, "completion_tokens"), {
    ...parts,
    ...spoken,
  });
}

/**
 * Returns the meters of OpenAI's Responses (`ResponseUsage`). `input_tokens` contains the cached and written tokens of
 * `input_tokens_details`; `output_tokens` contains reasoning. https://developers.openai.com/api/docs/guides/prompt-caching
 */
export function metersOfOpenAIResponses(usage: object): Meters {
  const { input_tokens_details: details, output_tokens_details: outputDetails } = fieldsIn(usage);
  const parts = { cacheRead: count(details, "cached_tokens"), cacheWrite: count(details, "cache_write_tokens") };
  const input = required(usage, "input_tokens");
  const output = required(usage, "output_tokens");
  rest(output, { reasoning_tokens: count(outputDetails, "reasoning_tokens") }, "output_tokens");
  assertTotal(usage, "total_tokens", input + output);
  return meters(rest(input, parts, "input_tokens"), output, parts);
}

/** Returns how many tokens Anthropic wrote into its cache: for five minutes, which is the default, and for an hour. */
function cacheWritesOfAnthropic(usage: object): { readonly cacheWrite: number; readonly cacheWrite1h: number } {
  const written = count(usage, "cache_creation_input_tokens");
  const { cache_creation: lives } = fieldsIn(usage);
  if ((lives ?? null) === null) return { cacheWrite: written, cacheWrite1h: 0 };
  const cacheWrite = count(lives, "ephemeral_5m_input_tokens");
  const cacheWrite1h = count(lives, "ephemeral_1h_input_tokens");
  assertTotal(usage, "cache_creation_input_tokens", cacheWrite + cacheWrite1h);
  return { cacheWrite, cacheWrite1h };
}

const METERS = ["cacheRead", "cacheWrite", "cacheWrite1h", "inputAudio", "outputAudio"] as const;

const sumOf = (a: Meters, b: Meters): Meters =>
  meters(
    a.input + b.input,
    a.output + b.output,
    Object.fromEntries(METERS.map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)])),
  );

/**
 * Returns the meters of Anthropic's Messages (`Usage`). `input_tokens` does not contain the tokens of the cache, which are beside it.
 * `output_tokens` contains thinking. Iterations of the type `compaction` are not in the other fields, so they are added; an advisor's
 * are another model's, and are not. https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching
 */
export function metersOfAnthropic(usage: object): Meters {
  const { output_tokens_details: outputDetails, iterations } = fieldsIn(usage);
  const output = required(usage, "output_tokens");
  rest(output, { thinking_tokens: count(outputDetails, "thinking_tokens") }, "output_tokens");
  const own = meters(required(usage, "input_tokens"), output, {
    cacheRead: count(usage, "cache_read_input_tokens"),
    ...cacheWritesOfAnthropic(usage),
  });
  const compactions = Array.isArray(iterations)
    ? iterations.filter((each) => fieldsIn(each).type === "compaction")
    : [];
  return compactions.map(metersOfAnthropic).reduce(sumOf, own);
}

/**
 * Returns the meters of the AI SDK, version 6 or 7: of a result, a step, or a provider's specification v3 or v4. `inputTokens` contains
 * the tokens of the cache; `outputTokens` contains reasoning. The SDK does not tell the lives of a cache apart: for Anthropic's hour
 * give `metersOfAnthropic` the usage in `raw`. https://ai-sdk.dev/docs/reference/ai-sdk-core/generate-text
 */
export function metersOfAiSdk(usage: object): Meters {
  const given = fieldsIn(usage);
  const isOfProvider = typeof given.inputTokens === "object" && given.inputTokens !== null;
  const [inputs, outputs] = isOfProvider
    ? [given.inputTokens, given.outputTokens]
    : [given.inputTokenDetails, given.outputTokenDetails];
  if (inputs === undefined && count(usage, "cachedInputTokens") > 0) {
    throw new TypeError(
      "Version 5 of the AI SDK does not tell whether inputTokens contains the tokens of the cache. Give the provider's own usage.",
    );
  }
  const suffix = isOfProvider ? "" : "Tokens";
  const input = isOfProvider ? required(inputs, "total") : required(usage, "inputTokens");
  const output = isOfProvider ? required(outputs, "total") : required(usage, "outputTokens");
  if (!isOfProvider) assertTotal(usage, "totalTokens", input + output);
  const parts = { cacheRead: count(inputs, `cacheRead${suffix}`), cacheWrite: count(inputs, `cacheWrite${suffix}`) };
  const uncached = rest(input, parts, "inputTokens");
  assertTotal(inputs, `noCache${suffix}`, uncached);
  rest(output, { reasoning: count(outputs, `reasoning${suffix}`) }, "outputTokens");
  return meters(uncached, output, parts);
}

/** Returns the tokens of audio in a list of Gemini's tokens by modality. */
const audio = (details: unknown): number =>
  (Array.isArray(details) ? details : [])
    .filter((each) => fieldsIn(each).modality === "AUDIO")
    .reduce((sum, each) => sum + count(each, "tokenCount"), 0);

/**
 * Returns the meters of Gemini (`usageMetadata`). `promptTokenCount` contains `cachedContentTokenCount`. `candidatesTokenCount` does
 * not contain `thoughtsTokenCount`, and neither contains `toolUsePromptTokenCount`, which is input. Tokens of audio in the cache count
 * as `cacheRead`. https://ai.google.dev/api/generate-content#UsageMetadata
 */
export function metersOfGemini(usage: object): Meters {
  const { cacheTokensDetails, promptTokensDetails, candidatesTokensDetails } = fieldsIn(usage);
  const parts = {
    cacheRead: count(usage, "cachedContentTokenCount"),
    inputAudio: rest(audio(promptTokensDetails), { cached: audio(cacheTokensDetails) }, "AUDIO"),
  };
  const prompt = required(usage, "promptTokenCount");
  const candidates = count(usage, "candidatesTokenCount");
  const thoughts = count(usage, "thoughtsTokenCount");
  const tools = count(usage, "toolUsePromptTokenCount");
  const spoken = { outputAudio: audio(candidatesTokensDetails) };
  assertTotal(usage, "totalTokenCount", prompt + candidates + thoughts + tools);
  return meters(
    rest(prompt, parts, "promptTokenCount") + tools,
    rest(candidates, spoken, "candidatesTokenCount") + thoughts,
    { ...parts, ...spoken },
  );
}

const ANTHROPIC_CACHE = ["cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation"];

/**
 * Returns the meters of the usage that OpenAI, Anthropic, Gemini or the AI SDK reported. Throws `TypeError` for usage of another shape,
 * and for usage that does not add up.
 */
export function metersOf(usage: object): Meters {
  const given = fieldsIn(usage);
  const isOpenAI = (given.input_tokens_details ?? null) !== null;
  const isAnthropic = ANTHROPIC_CACHE.some((name) => name in given);
  if (isOpenAI && isAnthropic) {
    throw new TypeError("The usage has fields of OpenAI and of Anthropic. Call one by name.");
  }
  if ("prompt_tokens" in given) return metersOfOpenAIChat(usage);
  if ("promptTokenCount" in given) return metersOfGemini(usage);
  if ("inputTokens" in given) return metersOfAiSdk(usage);
  // Usage of audio and images has `input_token_details`, whose tokens have other prices.
  if ("input_tokens" in given && (given.input_token_details ?? null) === null) {
    // With neither's details both mean the same.
    return isAnthropic ? metersOfAnthropic(usage) : metersOfOpenAIResponses(usage);
  }
  throw new TypeError("The usage is not of a known shape. Give the usage of the response: response.usage.");
}
