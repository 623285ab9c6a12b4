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

/** Stands for a model's client: yields one token at a time, until the signal aborts. */
async function* mockModel({ prompt, signal }) {
  for (const word of `You asked: ${prompt} A ship is a town that moves.`.split(" ")) {
    await wait(20, null, { signal });
    yield `${word} `;
  }
}

async function answer(purser, askModel, { userId, model, prompt }, response) {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const inputTokens = prompt.split(" ").length;
  const usage = {
    userId,
    event: "chat.completion",
    model,
    quantities: quantitiesOf(model, inputTokens, OUTPUT_TOKENS_MAX),
    signal: closed.signal,
  };
  await purser.usage.hold(usage, async (hold) => {
    response.setHeader("content-type", "text/plain; charset=utf-8");
    let outputTokens = 0;
    for await (const token of askModel({ model, prompt, signal: closed.signal })) {
      outputTokens++;
      hold.used(quantitiesOf(model, inputTokens, outputTokens));
      response.write(token);
      if (outputTokens === OUTPUT_TOKENS_MAX) break;
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
