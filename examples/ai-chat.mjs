/**
 * A streaming chat that is paid from the user's credits. It reserves the highest price of an answer, and charges the actual price, even
 * if the user closes the page before the end. It sends meters, and the price list in Purser prices them (docs/prices.md). The model is a
 * mock: replace it with yours. While `npm start` runs, start it with
 * `PURSER_URL=http://localhost:8787 PURSER_SECRET_KEY=sk_live_… node examples/ai-chat.mjs`, then
 * `curl -N http://localhost:4243 -d '{"userId":"user_grace","model":"small-2","prompt":"Tell me of ships."}'`.
 */
import { realpathSync } from "node:fs";
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as wait } from "node:timers/promises";
import { InsufficientCredits, Purser, PurserError } from "purser-client";
import { metersOf } from "purser-client/meters";

const OUTPUT_TOKENS_MAX = 500;

/** An estimate for the hold, and for an answer that ends before the provider has counted: four characters are about a token. */
const estimateTokens = (text) => Math.ceil(text.length / 4);

/**
 * Stands for a model's client: yields pieces of text, until the signal aborts. Like providers, it reports its usage at the end, in a
 * piece of its own, here in the form of OpenAI's Chat Completions.
 */
async function* mockModel({ prompt, signal }) {
  const words = `You asked: ${prompt} A ship is a town that moves.`.split(" ");
  for (const word of words) {
    await wait(20, null, { signal });
    yield { text: `${word} ` };
  }
  yield { usage: { prompt_tokens: prompt.split(" ").length, completion_tokens: words.length } };
}

async function answer(purser, askModel, { userId, model, prompt }, response) {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const input = estimateTokens(prompt);
  const usage = {
    userId,
    event: "chat.completion",
    model,
    meters: { input, output: OUTPUT_TOKENS_MAX },
    signal: closed.signal,
  };
  await purser.usage.hold(usage, async (hold) => {
    response.setHeader("content-type", "text/plain; charset=utf-8");
    // The provider bills the prompt from here on, even if the user leaves before the first word.
    hold.used({ meters: { input, output: 0 } });
    const pieces = askModel({ model, prompt, maxOutputTokens: OUTPUT_TOKENS_MAX, signal: closed.signal });
    let answered = "";
    let counted = null;
    for await (const { text = "", usage } of pieces) {
      answered += text;
      // A piece of text may be many tokens or a part of one. Only the provider's own count is what it bills.
      if (usage !== undefined) counted = metersOf(usage);
      hold.used({ meters: counted ?? { input, output: estimateTokens(answered) } });
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
      if (typeof prompt !== "string" || typeof model !== "string")
        return response.writeHead(400).end("The prompt or the model is missing.");
      await answer(purser, askModel, { userId, model, prompt }, response);
    } catch (error) {
      if (response.headersSent) return response.destroy();
      if (error instanceof InsufficientCredits)
        return response.writeHead(402).end("You have too few credits for this.");
      if (error instanceof PurserError && error.code === "price_not_found")
        return response.writeHead(400).end("This model has no price.");
      response.writeHead(502).end("The chat does not work now.");
    }
  });
}

if (import.meta.filename === realpathSync(process.argv[1])) {
  const { PURSER_URL: purserUrl, PURSER_SECRET_KEY: secretKey, PORT = "4243" } = process.env;
  if (!purserUrl || !secretKey) throw new Error("Set PURSER_URL and PURSER_SECRET_KEY.");
  chatServer({ purserUrl, secretKey }).listen(Number(PORT), () => console.log(`Chat at http://localhost:${PORT}.`));
}
