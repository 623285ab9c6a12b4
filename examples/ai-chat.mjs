/**
 * A streaming chat that is paid from the user's credits. It reserves the highest price of an answer, and charges the actual price, even
 * if the user closes the page before the end. The model is a mock: replace it with yours. While `npm start` runs, start it with
 * `PURSER_URL=http://localhost:8787 PURSER_SECRET_KEY=sk_live_… node examples/ai-chat.mjs`, then
 * `curl -N http://localhost:4243 -d '{"userId":"user_grace","model":"small-2","prompt":"Tell me of ships."}'`.
 */
import { realpathSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as wait } from "node:timers/promises";
import { InsufficientCredits, Purser } from "purser-client";

/** Your prices, in cents a million tokens. Purser does not know the prices of models. */
const PRICES = {
  "small-2": { input: 20, output: 80 },
  "large-1": { input: 300, output: 1_500 },
};
const OUTPUT_TOKENS_MAX = 500;

/** The same usage in two units. The user's balances decide which of them pays. */
function quantitiesOf(model, inputTokens, outputTokens) {
  const { input, output } = PRICES[model];
  return { tokens: inputTokens + outputTokens, cents: (inputTokens * input + outputTokens * output) / 1_000_000 };
}

/** An estimate for the hold, and for an answer that ends before the provider has counted: four characters are about a token. */
const estimateTokens = (text) => Math.ceil(text.length / 4);

/**
 * Stands for a model's client: yields pieces of text, until the signal aborts. Like providers, it reports the tokens at the end, in a
 * piece of its own.
 */
async function* mockModel({ prompt, signal }) {
  const words = `You asked: ${prompt} A ship is a town that moves.`.split(" ");
  for (const word of words) {
    await wait(20, null, { signal });
    yield { text: `${word} ` };
  }
  yield { usage: { inputTokens: prompt.split(" ").length, outputTokens: words.length } };
}

async function answer(purser, askModel, { userId, model, prompt }, response) {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const inputTokens = estimateTokens(prompt);
  const usage = {
    userId,
    event: "chat.completion",
    model,
    quantities: quantitiesOf(model, inputTokens, OUTPUT_TOKENS_MAX),
    signal: closed.signal,
  };
  await purser.usage.hold(usage, async (hold) => {
    response.setHeader("content-type", "text/plain; charset=utf-8");
    // The provider bills the prompt from here on, even if the user leaves before the first word.
    hold.used(quantitiesOf(model, inputTokens, 0));
    const pieces = askModel({ model, prompt, maxOutputTokens: OUTPUT_TOKENS_MAX, signal: closed.signal });
    let answered = "";
    let counted = null;
    for await (const { text = "", usage } of pieces) {
      answered += text;
      // A piece of text may be many tokens or a part of one. Only the provider's own count is what it bills.
      counted = usage ?? counted;
      hold.used(
        counted === null
          ? quantitiesOf(model, inputTokens, estimateTokens(answered))
          : quantitiesOf(model, counted.inputTokens, counted.outputTokens),
      );
      if (text !== "") response.write(text);
    }
  });
  response.end();
}

export function chatServer({ purserUrl, secretKey, askModel = mockModel }) {
  const purser = new Purser({ url: purserUrl, key: secretKey });
  return createServer(async (request, response) => {
    try {
      // In your product, take the user from your session, never from the request.
      const { userId, model, prompt } = await json(request);
      if (typeof prompt !== "string" || !(model in PRICES))
        return response.writeHead(400).end("The prompt or the model is missing.");
      await answer(purser, askModel, { userId, model, prompt }, response);
    } catch (error) {
      if (response.headersSent) return response.destroy();
      if (error instanceof InsufficientCredits)
        return response.writeHead(402).end("You have too few credits for this.");
      response.writeHead(502).end("The chat does not work now.");
    }
  });
}

if (import.meta.filename === realpathSync(process.argv[1])) {
  const { PURSER_URL: purserUrl, PURSER_SECRET_KEY: secretKey, PORT = "4243" } = process.env;
  if (!purserUrl || !secretKey) throw new Error("Set PURSER_URL and PURSER_SECRET_KEY.");
  chatServer({ purserUrl, secretKey }).listen(Number(PORT), () => console.log(`Chat at http://localhost:${PORT}.`));
}
