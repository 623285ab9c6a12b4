import { APICallError, jsonSchema, type LanguageModelMiddleware } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { wrapLanguageModel as wrapLanguageModelV6 } from "ai-v6";
import { MockLanguageModelV3 } from "ai-v6/test";
import { Purser } from "purser-client";
import { beforeAll, describe, expect, it } from "vitest";
import { purserMiddleware } from "../../clients/ai-sdk/src/middleware.ts";
import type { MiddlewareSettings } from "../../clients/ai-sdk/src/settings.ts";
import { chatApp } from "../../examples/ai-sdk-chat.mjs";
import { aiWorld, GRANTED, SDKS } from "./support/ai-world.ts";

/** Usage in the form of a provider: 100 tokens of input, of which the cache had some, and 20 of output. */
const usageOf = (input: number | undefined, output: number | undefined, { cacheRead = 0, raw = {} } = {}) => ({
  inputTokens: {
    total: input,
    noCache: input === undefined ? undefined : input - cacheRead,
    cacheRead,
    cacheWrite: 0,
  },
  outputTokens: { total: output, text: output, reasoning: 0 },
  raw,
});
const USAGE = usageOf(100, 20, { cacheRead: 40 });
const CHARGED = { meters: { input: 60, output: 20, cacheRead: 40 }, quantities: { tokens: 264 } };
const STOP = { unified: "stop", raw: "stop" } as const;

const answer = (more: object = {}) => ({
  content: [{ type: "text" as const, text: "A ship is a town." }],
  finishReason: STOP,
  usage: USAGE,
  warnings: [],
  response: { modelId: "small-2" },
  ...more,
});

const words = (...texts: readonly string[]) => [
  { type: "stream-start" as const, warnings: [] },
  { type: "response-metadata" as const, id: "1", modelId: "small-2", timestamp: new Date(0) },
  { type: "text-start" as const, id: "t" },
  ...texts.map((delta) => ({ type: "text-delta" as const, id: "t", delta })),
  { type: "text-end" as const, id: "t" },
];
const finish = (usage = USAGE) => ({ type: "finish" as const, finishReason: STOP, usage });

/** A stream of parts; `pause` comes before each. An `Error` among them fails the stream. */
const streamOf = <Part>(parts: readonly (Part | Error)[], pause = async () => {}) => {
  const left = [...parts];
  return new ReadableStream<Part>(
    {
      async pull(controller) {
        await pause();
        const part = left.shift();
        if (part === undefined) return controller.close();
        if (part instanceof Error) return controller.error(part);
        controller.enqueue(part);
      },
    },
    { highWaterMark: 0 },
  );
};

const unavailable = () =>
  new APICallError({
    message: "overloaded",
    url: "https://model.example",
    requestBodyValues: {},
    statusCode: 503,
    responseHeaders: { "retry-after-ms": "10" },
  });

it("has the types of version 6, too", () => {
  const settings = { purser: new Purser({ url: "http://127.0.0.1:9", key: "sk_live_x" }), userId: "u", event: "chat" };
  const middleware = purserMiddleware(settings);
  const model = new MockLanguageModelV3({ modelId: "small-2" });
  expect(wrapLanguageModelV6({ model, middleware }).modelId).toBe("small-2");
});

describe.each(SDKS)("purser-ai-sdk with the AI SDK, %s", (_version, sdk, Model) => {
  let world: Awaited<ReturnType<typeof aiWorld>>;
  beforeAll(async () => {
    world = await aiWorld();
  });

  type MockOptions = ConstructorParameters<typeof Model>[0];
  const warnings: string[] = [];
  /** Returns the model and, in `asked`, how often the provider was asked. */
  function charged(userId: string, options: MockOptions, settings: Partial<MiddlewareSettings> = {}) {
    const mock = new Model({ modelId: "small-2", ...options });
    warnings.length = 0;
    const middleware: LanguageModelMiddleware = purserMiddleware({
      purser: world.purser,
      userId,
      event: "chat.answer",
      onWarning: (warning) => warnings.push(warning),
      ...settings,
    });
    const asked = () => mock.doGenerateCalls.length + mock.doStreamCalls.length;
    return { model: sdk.wrapLanguageModel({ model: mock, middleware }), asked };
  }
  /** Reads a text to its end, whatever comes. */
  async function read(result: { readonly textStream: AsyncIterable<string> }): Promise<string> {
    let text = "";
    for await (const piece of result.textStream) text += piece;
    return text;
  }
  const quiet = { onError: () => {} };

  it("charges the tokens that the provider reported, once, and holds nothing afterwards", async () => {
    const userId = await world.user();
    const { model } = charged(userId, { doGenerate: answer() }, { eventId: `${userId}-chat` });
    const { text } = await sdk.generateText({ model, prompt: "Tell me of ships.", maxOutputTokens: 500 });
    expect(text).toBe("A ship is a town.");
    expect(await world.books(userId)).toEqual({
      events: [{ eventId: `${userId}-chat`, model: "small-2", ...CHARGED }],
      spent: 264,
      open: 0,
    });
    expect(warnings).toEqual([]);
  });

  it("charges a team, and names the member who used it", async () => {
    const userId = await world.user();
    const { model } = charged(userId, { doGenerate: answer() }, { memberId: "joan" });
    await sdk.generateText({ model, prompt: "Tell me of ships.", maxOutputTokens: 500 });
    const { events } = await world.purser.listUsageEvents({ userId, memberId: "joan" });
    expect(events).toMatchObject([{ memberId: "joan", ...CHARGED }]);
  });

  it("reserves the prompt and the highest output before the provider is asked", async () => {
    const userId = await world.user();
    let during: Awaited<ReturnType<typeof world.books>> | undefined;
    const doGenerate = async () => {
      during = await world.books(userId);
      return answer();
    };
    const { model } = charged(userId, { doGenerate });
    await sdk.generateText({ model, prompt: "Tell me of ships.", maxOutputTokens: 500 });
    expect(during).toMatchObject({ events: [], open: 1 });
    // 500 tokens of output cost 5,000. The prompt has 17 letters.
    expect(during?.spent).toBeGreaterThanOrEqual(5_006);
    expect(during?.spent).toBeLessThan(5_100);
  });

  it("charges a stream when it finishes, before its text ends", async () => {
    const userId = await world.user();
    const { model } = charged(userId, { doStream: { stream: streamOf([...words("A ", "ship."), finish()]) } });
    expect(await read(sdk.streamText({ model, prompt: "Tell me.", maxOutputTokens: 500 }))).toBe("A ship.");
    expect(await world.books(userId)).toMatchObject({ events: [CHARGED], spent: 264, open: 0 });
  });

  it("charges each step of a call with tools, under ids that a repetition of the job shares", async () => {
    const userId = await world.user();
    const call = { type: "tool-call" as const, toolCallId: "c", toolName: "depth", input: '{"port":"Oslo"}' };
    const steps = [
      answer({ content: [call], finishReason: { unified: "tool-calls", raw: "x" }, usage: usageOf(80, 5) }),
      answer(),
    ];
    const tools = {
      depth: sdk.tool({
        inputSchema: jsonSchema<{ port: string }>({ type: "object", properties: { port: { type: "string" } } }),
        execute: async () => 12,
      }),
    };
    const run = () => {
      const { model } = charged(userId, { doGenerate: [...steps] }, { eventId: `${userId}-job` });
      return sdk.generateText({ model, tools, prompt: "How deep?", maxOutputTokens: 50, stopWhen: sdk.stepCountIs(3) });
    };
    expect((await run()).steps).toHaveLength(2);
    const once = {
      events: [
        { eventId: `${userId}-job`, meters: { input: 80, output: 5 }, quantities: { tokens: 130 } },
        { eventId: `${userId}-job#2`, ...CHARGED },
      ],
      spent: 394,
      open: 0,
    };
    expect(await world.books(userId)).toMatchObject(once);
    await run();
    expect(await world.books(userId)).toMatchObject(once);
  });

  it("charges structured output", async () => {
    const userId = await world.user();
    const { model } = charged(userId, { doGenerate: answer({ content: [{ type: "text", text: '{"port":"Oslo"}' }] }) });
    const schema = jsonSchema<{ port: string }>({ type: "object", properties: { port: { type: "string" } } });
    const { output } = await sdk.generateText({ model, prompt: "Which?", output: sdk.Output.object({ schema }) });
    expect(output).toEqual({ port: "Oslo" });
    expect(await world.books(userId)).toMatchObject({ events: [CHARGED], spent: 264, open: 0 });
  });

  it("charges the model that answered, where a router chose another", async () => {
    const userId = await world.user();
    const [start, , ...rest] = words("A ship.");
    const metadata = { type: "response-metadata" as const, id: "1", modelId: "large-3", timestamp: new Date(0) };
    const streamed = [start, metadata, ...rest, finish()].filter((part) => part !== undefined);
    const { model } = charged(userId, {
      doGenerate: answer({ response: { modelId: "large-3" } }),
      doStream: { stream: streamOf(streamed) },
    });
    await sdk.generateText({ model, prompt: "Tell me." });
    await read(sdk.streamText({ model, prompt: "Tell me." }));
    const large = { model: "large-3", quantities: { tokens: 784 } };
    expect(await world.books(userId)).toMatchObject({ events: [large, large], spent: 1_568, open: 0 });
  });

  it("tells an hour's cache apart by the provider's own usage", async () => {
    const userId = await world.user();
    const raw = {
      input_tokens: 10,
      cache_creation_input_tokens: 30,
      cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
      cache_read_input_tokens: 60,
      output_tokens: 20,
    };
    const usage = {
      ...usageOf(100, 20, { raw }),
      inputTokens: { total: 100, noCache: 10, cacheRead: 60, cacheWrite: 30 },
    };
    const { model } = charged(userId, { doGenerate: answer({ usage }) });
    await sdk.generateText({ model, prompt: "Tell me." });
    const meters = { input: 10, output: 20, cacheRead: 60, cacheWrite: 10, cacheWrite1h: 20 };
    expect((await world.books(userId)).events).toMatchObject([{ meters }]);
  });

  it.each([
    ["no usage", usageOf(undefined, undefined)],
    ["no output", usageOf(100, undefined)],
    ["only zeros", usageOf(0, 0)],
    ["a part above its whole", usageOf(10, 20, { cacheRead: 40 })],
  ])("charges what was held, and warns, when the provider reports %s", async (_name, usage) => {
    const userId = await world.user();
    const doStream = { stream: streamOf([...words("A ship."), finish(usage)]) };
    const { model } = charged(userId, { doGenerate: answer({ usage }), doStream }, { estimateInputTokens: () => 70 });
    await sdk.generateText({ model, prompt: "Tell me.", maxOutputTokens: 50 });
    await read(sdk.streamText({ model, prompt: "Tell me.", maxOutputTokens: 50 }));
    const held = { meters: { input: 70, output: 50 }, quantities: { tokens: 570 } };
    expect(await world.books(userId)).toMatchObject({ events: [held, held], spent: 1_140, open: 0 });
    expect(warnings).toEqual(Array(2).fill(expect.stringContaining("no usage that adds up")));
  });

  it("charges what was held for a stream that ends without its last part", async () => {
    const userId = await world.user();
    const doStream = { stream: streamOf(words("A ship.")) };
    const { model } = charged(userId, { doStream }, { estimateInputTokens: () => 70 });
    await read(sdk.streamText({ model, prompt: "Tell me.", maxOutputTokens: 50, ...quiet })).catch(() => {});
    expect(await world.books(userId)).toMatchObject({ events: [{ meters: { input: 70, output: 50 } }], open: 0 });
    expect(warnings).toHaveLength(1);
  });

  it("releases what was reserved when the call is aborted before the provider is asked", async () => {
    const userId = await world.user();
    const aborted = new AbortController();
    const purser: MiddlewareSettings["purser"] = {
      ...world.purser,
      createReservation: async (input, options) => {
        const answered = await world.purser.createReservation(input, options);
        aborted.abort();
        return answered;
      },
    };
    const kept: Promise<unknown>[] = [];
    const settings = { purser, waitUntil: (promise: Promise<unknown>) => void kept.push(promise) };
    const { model, asked } = charged(userId, { doGenerate: answer() }, settings);
    const call = sdk.generateText({ model, prompt: "Tell me.", abortSignal: aborted.signal });
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    await Promise.all(kept);
    expect(asked()).toBe(0);
    expect(await world.books(userId)).toEqual({ events: [], spent: 0, open: 0 });
  });

  it("charges the prompt when the call is aborted while the provider works", async () => {
    const userId = await world.user();
    const aborted = new AbortController();
    const doGenerate = async ({ abortSignal }: { abortSignal?: AbortSignal | undefined }) => {
      aborted.abort();
      abortSignal?.throwIfAborted();
      return answer();
    };
    const { model } = charged(userId, { doGenerate }, { estimateInputTokens: () => 70 });
    const call = sdk.generateText({ model, prompt: "Tell me.", abortSignal: aborted.signal });
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    expect(await world.books(userId)).toMatchObject({
      events: [{ meters: { input: 70, output: 0 } }],
      spent: 70,
      open: 0,
    });
  });

  it.each([0, 1, 2, 3])("charges the prompt and the text so far when a stream is aborted after %i words", async (n) => {
    const userId = await world.user();
    const aborted = new AbortController();
    const parts = words("one ", "two ", "ten ");
    let sent = 0;
    const pause = async () => {
      sent += 1;
      // Three parts come before the first word.
      if (sent === 4 + n) aborted.abort();
    };
    const kept: Promise<unknown>[] = [];
    const settings = {
      estimateInputTokens: () => 70,
      waitUntil: (promise: Promise<unknown>) => void kept.push(promise),
    };
    const { model } = charged(userId, { doStream: { stream: streamOf([...parts, finish()], pause) } }, settings);
    await read(sdk.streamText({ model, prompt: "Tell me.", abortSignal: aborted.signal, ...quiet })).catch(() => {});
    await Promise.all(kept);
    const { events, open } = await world.books(userId);
    expect({ events, open }).toMatchObject({ events: [{ meters: { input: 70 } }], open: 0 });
    // Four letters are 4/3 tokens. The SDK may read one part ahead.
    const output = events[0]?.meters?.output ?? -1;
    expect(output).toBeGreaterThanOrEqual(Math.ceil((n * 4) / 3));
    expect(output).toBeLessThanOrEqual(Math.ceil(((n + 1) * 4) / 3));
  });

  it("charges the text so far when the reader of the model's stream goes away", async () => {
    const userId = await world.user();
    const doStream = { stream: streamOf([...words("one ", "two "), finish()]) };
    const { model } = charged(userId, { doStream }, { estimateInputTokens: () => 70 });
    const prompt = [{ role: "user" as const, content: [{ type: "text" as const, text: "Tell me." }] }];
    const { stream } = await model.doStream({ prompt });
    const reader = stream.getReader();
    for (let part = 0; part < 4; part++) await reader.read();
    await reader.cancel("gone");
    const { events, open } = await world.books(userId);
    expect({ events, open }).toMatchObject({ events: [{ meters: { input: 70, output: 2 } }], open: 0 });
  });

  it("charges the prompt when the provider fails, and the text so far when it fails amid a stream", async () => {
    const userId = await world.user();
    const { model } = charged(
      userId,
      {
        doGenerate: async () => {
          throw new Error("refused");
        },
        doStream: { stream: streamOf([...words("one two six"), new Error("cut")]) },
      },
      { estimateInputTokens: () => 70 },
    );
    await expect(sdk.generateText({ model, prompt: "Tell me." })).rejects.toThrow("refused");
    await read(sdk.streamText({ model, prompt: "Tell me.", ...quiet })).catch(() => {});
    const events = [{ meters: { input: 70, output: 0 } }, { meters: { input: 70, output: 4 } }];
    expect(await world.books(userId)).toMatchObject({ events, spent: 180, open: 0 });
  });

  it("charges what an error in a stream reports, else the text so far", async () => {
    const userId = await world.user();
    const error = { type: "error" as const, error: new Error("overloaded") };
    for (const usage of [usageOf(undefined, undefined), usageOf(90, 3)]) {
      const doStream = { stream: streamOf([...words("one two six"), error, finish(usage)]) };
      const { model } = charged(userId, { doStream }, { estimateInputTokens: () => 70 });
      await read(sdk.streamText({ model, prompt: "Tell me.", ...quiet })).catch(() => {});
    }
    const events = [{ meters: { input: 70, output: 4 } }, { meters: { input: 90, output: 3 } }];
    expect(await world.books(userId)).toMatchObject({ events, open: 0 });
  });

  it("charges a call once that the SDK repeats after the provider's errors", async () => {
    const userId = await world.user();
    let tries = 0;
    const flaky =
      <Answer>(given: () => Answer) =>
      async () => {
        tries += 1;
        if (tries % 3 !== 0) throw unavailable();
        return given();
      };
    const options = {
      doGenerate: flaky(answer),
      doStream: flaky(() => ({ stream: streamOf([...words("A ship."), finish()]) })),
    };
    const { model, asked } = charged(userId, options, { eventId: `${userId}-retried` });
    await sdk.generateText({ model, prompt: "Tell me." });
    await read(sdk.streamText({ model, prompt: "Tell me.", ...quiet }));
    expect(asked()).toBe(6);
    const events = [`${userId}-retried`, `${userId}-retried#2`].map((eventId) => ({ eventId, ...CHARGED }));
    expect(await world.books(userId)).toMatchObject({ events, spent: 528, open: 0 });
  });

  it("charges each of two users with the same message, also while a repetition of the other's is expected", async () => {
    const [first, second] = [await world.user(), await world.user()];
    let failures = 1;
    const doGenerate = async () => {
      if (failures-- > 0) throw unavailable();
      return answer();
    };
    const ask = (userId: string) => sdk.generateText({ ...charged(userId, { doGenerate }), prompt: "Hello" });
    const repeated = ask(first);
    await ask(second);
    await repeated;
    for (const userId of [first, second])
      expect(await world.books(userId)).toMatchObject({ events: [CHARGED], spent: 264, open: 0 });
  });

  it("charges each of a user's equal messages, whichever of them the SDK repeats", async () => {
    const userId = await world.user();
    let tries = 0;
    const doGenerate = async () => {
      tries += 1;
      if (tries === 1 || tries === 3) throw unavailable();
      return answer();
    };
    const { model, asked } = charged(userId, { doGenerate }, { eventId: `${userId}-twice` });
    await Promise.all([1, 2, 3].map(() => sdk.generateText({ model, prompt: "Hello" })));
    expect(asked()).toBe(5);
    const { events, spent, open } = await world.books(userId);
    expect(events.map(({ eventId }) => eventId).sort()).toEqual(["", "#2", "#3"].map((n) => `${userId}-twice${n}`));
    expect({ spent, open }).toEqual({ spent: 3 * 264, open: 0 });
  });

  it.each<[string, string, number]>([
    ["a higher output", "small-2", 400],
    ["another model", "large-1", 10],
  ])(
    "reserves anew for the same message with %s, while a repetition is expected",
    async (_, modelId, maxOutputTokens) => {
      const userId = await world.user();
      const kept: Promise<unknown>[] = [];
      const middleware: LanguageModelMiddleware = purserMiddleware({
        ...{ purser: world.purser, userId, event: "chat.answer", estimateInputTokens: () => 70 },
        waitUntil: (promise) => void kept.push(promise),
      });
      const failing = async () => {
        throw unavailable();
      };
      const ask = (mock: InstanceType<typeof Model>, outputTokens: number) => {
        const model = sdk.wrapLanguageModel({ model: mock, middleware });
        return sdk.generateText({ model, prompt: "Hello", maxOutputTokens: outputTokens, maxRetries: 0 });
      };
      await expect(ask(new Model({ modelId: "small-2", doGenerate: failing }), 10)).rejects.toThrow("overloaded");
      await ask(new Model({ modelId, doGenerate: answer({ response: { modelId } }) }), maxOutputTokens);
      await Promise.all(kept);
      const { events, open } = await world.books(userId);
      expect(open).toBe(0);
      expect(events.map(({ model, meters }) => [model, meters])).toEqual(
        expect.arrayContaining([
          ["small-2", { input: 70, output: 0 }],
          [modelId, CHARGED.meters],
        ]),
      );
    },
  );

  it("charges the prompt once when all repetitions fail, at once after the last", async () => {
    const userId = await world.user();
    const doGenerate = async () => {
      throw unavailable();
    };
    const { model, asked } = charged(userId, { doGenerate }, { estimateInputTokens: () => 70 });
    await expect(sdk.generateText({ model, prompt: "Tell me." })).rejects.toThrow("overloaded");
    expect(asked()).toBe(3);
    expect(await world.books(userId)).toMatchObject({
      events: [{ meters: { input: 70, output: 0 } }],
      spent: 70,
      open: 0,
    });
  });

  it("charges the prompt soon when a repetition is expected and none comes", async () => {
    const userId = await world.user();
    const kept: Promise<unknown>[] = [];
    const doGenerate = async () => {
      throw unavailable();
    };
    const settings = { estimateInputTokens: () => 70, waitUntil: (one: Promise<unknown>) => void kept.push(one) };
    const { model } = charged(userId, { doGenerate }, settings);
    await expect(sdk.generateText({ model, prompt: "Tell me.", maxRetries: 0 })).rejects.toThrow("overloaded");
    await Promise.all(kept);
    expect(await world.books(userId)).toMatchObject({
      events: [{ meters: { input: 70, output: 0 } }],
      spent: 70,
      open: 0,
    });
  });

  it("rejects a call whose credits do not suffice before the provider is asked", async () => {
    const userId = await world.user(1_000);
    const { model, asked } = charged(userId, { doGenerate: answer(), doStream: { stream: streamOf([finish()]) } });
    const call = { model, prompt: "Tell me.", maxOutputTokens: 500 };
    await expect(sdk.generateText(call)).rejects.toMatchObject({ code: "insufficient_credits", status: 402 });
    const errors: unknown[] = [];
    await read(sdk.streamText({ ...call, onError: ({ error }) => void errors.push(error) })).catch(() => {});
    expect(errors).toMatchObject([{ code: "insufficient_credits" }]);
    expect(asked()).toBe(0);
    expect(await world.books(userId)).toEqual({ events: [], spent: GRANTED - 1_000, open: 0 });
  });

  it("rejects a call above a usage limit before the provider is asked", async () => {
    const userId = await world.user();
    const limit = {
      name: `L ${userId}`,
      matches: [{ event: "draft" }],
      unit: "tokens",
      amount: 10,
      every: "day",
    } as const;
    const { limitId } = await world.admin.createUsageLimit({ appId: world.appId, mode: "live", ...limit });
    const quantities = (_meters: object, model: string) => ({ tokens: model.length + 10 });
    const { model, asked } = charged(userId, { doGenerate: answer() }, { event: "draft", quantities });
    const call = sdk.generateText({ model, prompt: "Tell me." });
    await expect(call).rejects.toMatchObject({ code: "usage_limit_reached", status: 429, details: { limitId } });
    expect(asked()).toBe(0);
    expect(await world.books(userId)).toEqual({ events: [], spent: 0, open: 0 });
    await world.admin.deleteUsageLimit({ appId: world.appId, limitId });
  });

  it("rejects a call of a model without a price before the provider is asked", async () => {
    const userId = await world.user();
    const { model, asked } = charged(userId, { modelId: "unknown-1", doGenerate: answer() });
    await expect(sdk.generateText({ model, prompt: "Tell me." })).rejects.toMatchObject({ code: "price_not_found" });
    expect(asked()).toBe(0);
  });

  it("asks no provider while Purser is down", async () => {
    const userId = await world.user();
    const purser = new Purser({ url: "http://127.0.0.1:9", key: world.key, retries: 0 });
    const { model, asked } = charged(userId, { doGenerate: answer() }, { purser });
    await expect(sdk.generateText({ model, prompt: "Tell me." })).rejects.toMatchObject({ code: "no_answer" });
    expect(asked()).toBe(0);
  });

  /** A Purser whose calls to a path lose their response `times` times, after Purser did the work. */
  function losing(path: RegExp, times: number, retries: number) {
    let left = times;
    const fetchAndLose = async (url: string, init: RequestInit) => {
      const response = await fetch(url, init);
      if (!path.test(url) || left === 0) return response;
      left -= 1;
      await response.arrayBuffer();
      throw new TypeError("the connection was reset");
    };
    return new Purser({ url: world.url, key: world.key, retries, fetch: fetchAndLose });
  }

  it("charges once when responses of Purser are lost", async () => {
    const userId = await world.user();
    const { model } = charged(userId, { doGenerate: answer() }, { purser: losing(/./, 2, 4) });
    await sdk.generateText({ model, prompt: "Tell me." });
    expect(await world.books(userId)).toMatchObject({ events: [CHARGED], spent: 264, open: 0 });
  });

  it("returns credits whose reservation had no response, because the provider was not asked", async () => {
    const userId = await world.user();
    const kept: Promise<unknown>[] = [];
    const purser = losing(/reservations$/, 1, 0);
    const settings = { purser, waitUntil: (one: Promise<unknown>) => void kept.push(one) };
    const { model, asked } = charged(userId, { doGenerate: answer() }, settings);
    await expect(sdk.generateText({ model, prompt: "Tell me." })).rejects.toMatchObject({ code: "no_answer" });
    await Promise.all(kept);
    expect(asked()).toBe(0);
    expect(await world.books(userId)).toEqual({ events: [], spent: 0, open: 0 });
  });

  it("answers when the commit fails for good, and the hold is charged when it expires", async () => {
    const userId = await world.user();
    const cut: typeof fetch = async (input, init) => {
      if (String(input).endsWith("/commit")) throw new TypeError("down");
      return fetch(input, init);
    };
    const purser = new Purser({ url: world.url, key: world.key, retries: 0, fetch: cut });
    const { model } = charged(
      userId,
      { doGenerate: answer() },
      { purser, estimateInputTokens: () => 70, expiresInSeconds: 1 },
    );
    const { text } = await sdk.generateText({ model, prompt: "Tell me.", maxOutputTokens: 50 });
    expect(text).toBe("A ship is a town.");
    expect(warnings).toEqual([expect.stringContaining("no_answer")]);
    await new Promise((resolve) => setTimeout(resolve, 1_100));
    await world.cron();
    const held = { meters: { input: 70, output: 50 }, quantities: { tokens: 570 } };
    expect(await world.books(userId)).toMatchObject({ events: [held], spent: 570, open: 0 });
  });

  it("says that onCharged failed, and not the commit, when onCharged throws", async () => {
    const userId = await world.user();
    const onCharged = () => {
      throw new Error("no metrics");
    };
    const { model } = charged(userId, { doGenerate: answer() }, { onCharged });
    await sdk.generateText({ model, prompt: "Tell me of ships.", maxOutputTokens: 500 });
    expect(await world.books(userId)).toMatchObject({ spent: 264, open: 0 });
    expect(warnings).toEqual(["The call was charged, and then onCharged threw: Error: no metrics."]);
  });

  it("extends the reservation while a stream runs", async () => {
    const userId = await world.user();
    let extended = 0;
    const purser: MiddlewareSettings["purser"] = {
      ...world.purser,
      extendReservation: async (input, options) => {
        extended += 1;
        return world.purser.extendReservation(input, options);
      },
    };
    // Each of the first parts waits until the reservation was extended once more.
    let parts = 0;
    const pause = async () => {
      parts += 1;
      if (parts > 4) return;
      const before = extended;
      while (extended === before) await new Promise((resolve) => setTimeout(resolve, 20));
    };
    const doStream = { stream: streamOf([...words("A "), finish()], pause) };
    // Half of this time passes before each extension. The other half is left for its answer on a busy machine.
    const { model } = charged(userId, { doStream }, { purser, expiresInSeconds: 2 });
    await read(sdk.streamText({ model, prompt: "Tell me.", maxOutputTokens: 500 }));
    expect(extended).toBeGreaterThanOrEqual(4);
    expect(await world.books(userId)).toMatchObject({ events: [CHARGED], spent: 264, open: 0 });
  });

  it("tells what each balance paid, and sends quantities and another name of the model where they are asked for", async () => {
    const userId = await world.user();
    const told: unknown[] = [];
    const settings: Partial<MiddlewareSettings> = {
      quantities: ({ output }) => ({ tokens: output }),
      modelName: (modelId) => `own/${modelId}`,
      onCharged: ({ debits, uncovered }) => void told.push([debits[0]?.amount, uncovered]),
    };
    const { model } = charged(userId, { doGenerate: answer() }, settings);
    await sdk.generateText({ model, prompt: "Tell me.", maxOutputTokens: 50 });
    const events = [{ model: "own/small-2", meters: null, quantities: { tokens: 20 } }];
    expect(await world.books(userId)).toMatchObject({ events, spent: 20, open: 0 });
    expect(told).toEqual([[20, null]]);
  });
});

const modelOf = (parts: readonly ReturnType<typeof finish>[]) =>
  new MockLanguageModelV4({
    modelId: "small-2",
    doStream: async () => ({ stream: streamOf([...words("A ", "ship."), ...parts]) }),
  });

it("the example of a chat with Hono and the AI SDK streams the answer, charges what the provider reported, and shows what is left on its page", async () => {
  const { url: purserUrl, key: secretKey, user, books } = await aiWorld();
  const userId = await user();
  const app = chatApp({ purserUrl, secretKey, model: modelOf([finish()]), userOf: () => userId });
  expect(await (await app.request("/")).text()).toContain("You have <output>");
  const sent = { method: "POST", body: JSON.stringify({ prompt: "Tell me of ships." }) };
  expect(await (await app.request("/chat", sent)).text()).toBe("A ship.");
  expect(await books(userId)).toMatchObject({ events: [CHARGED], open: 0 });
  expect(await (await app.request("/credits")).text()).toBe("999736 tokens");
});

it("the example of a chat with Hono and the AI SDK answers 402 to a user whose credits do not suffice, without asking the provider", async () => {
  const { url: purserUrl, key: secretKey, user } = await aiWorld();
  const userId = await user(10);
  const model = modelOf([finish()]);
  const app = chatApp({ purserUrl, secretKey, model, userOf: () => userId });
  const answered = await app.request("/chat", { method: "POST", body: JSON.stringify({ prompt: "Tell me." }) });
  expect(answered.status).toBe(402);
  expect(model.doStreamCalls).toEqual([]);
});

it("the example of a chat with Hono and the AI SDK charges the prompt and the words so far when the user leaves", async () => {
  const { url: purserUrl, key: secretKey, user, books } = await aiWorld();
  const userId = await user();
  const left = new AbortController();
  let parts = 0;
  const pause = async () => {
    parts += 1;
    if (parts === 5) left.abort();
  };
  const doStream = async () => ({ stream: streamOf([...words("one ", "two ", "ten "), finish()], pause) });
  const model = new MockLanguageModelV4({ modelId: "small-2", doStream });
  const app = chatApp({ purserUrl, secretKey, model, userOf: () => userId });
  const sent = { method: "POST", body: JSON.stringify({ prompt: "Tell me." }), signal: left.signal };
  await Promise.resolve(app.request("/chat", sent))
    .then((answered) => answered.text())
    .catch(() => {});
  await expect.poll(() => books(userId)).toMatchObject({ events: [{ model: "small-2" }], open: 0 });
  const [event] = (await books(userId)).events;
  expect(event?.meters?.input).toBeGreaterThan(8);
  expect(event?.meters?.output).toBeLessThan(4);
});
