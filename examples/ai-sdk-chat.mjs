/** A chat with Hono and the AI SDK, paid from the user's credits. Give it your model, and put the model's prices into Purser. */
import { streamText, wrapLanguageModel } from "ai";
import { Hono } from "hono";
import { stream } from "hono/streaming";
import { purserMiddleware } from "purser-ai-sdk";
import { Purser, PurserError } from "purser-client";

const PAGE = `<!doctype html><html lang="en"><title>Chat</title>
<p>You have <output></output>.</p><form><input name="prompt" required> <button>Send</button></form><pre></pre>
<script type="module">
  const [output, form, pre] = ["output", "form", "pre"].map((name) => document.querySelector(name));
  const show = async () => { output.value = await (await fetch("/credits")).text(); };
  form.onsubmit = async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ prompt: form.prompt.value });
    pre.textContent = await (await fetch("/chat", { method: "POST", body })).text();
    await show();
  };
  await show();
</script></html>`;

export function chatApp({ purserUrl, secretKey, model, userOf }) {
  const purser = new Purser({ url: purserUrl, key: secretKey });
  const app = new Hono();

  app.get("/", (c) => c.html(PAGE));

  app.get("/credits", async (c) => {
    const { credits } = await purser.listBalances({ userId: await userOf(c) });
    return c.text(credits.map(({ remaining, unit }) => `${remaining} ${unit}`).join(", ") || "no credits");
  });

  app.post("/chat", async (c) => {
    // `userOf` reads your session: a user id from the request's body would let one user spend another's credits.
    const middleware = purserMiddleware({ purser, userId: await userOf(c), event: "chat.completion" });
    const { prompt } = await c.req.json();
    let failure;
    const { textStream } = streamText({
      model: wrapLanguageModel({ model, middleware }),
      prompt,
      maxOutputTokens: 500,
      // When the user leaves, the provider stops, and what it did until then is charged.
      abortSignal: c.req.raw.signal,
      onError: ({ error }) => {
        failure = error;
      },
    });
    // The first word comes after the reservation, so a shortage has a status.
    const words = textStream[Symbol.asyncIterator]();
    const first = await words.next();
    if (failure instanceof PurserError && failure.is("insufficient_credits")) return c.text("Too few credits.", 402);
    if (failure !== undefined) return c.text("The chat does not work now.", 502);
    return stream(c, async (out) => {
      for (let word = first; !word.done; word = await words.next()) await out.write(word.value);
    });
  });
  return app;
}
