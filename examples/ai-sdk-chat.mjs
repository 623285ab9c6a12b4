/**
 * A chat on Hono and the AI SDK, paid from the user's credits, which its page shows. `chatApp` is a Worker's or a Node server's app. Give
 * it your model, such as `openai("gpt-5-mini")`, and price its meters in Purser.
 */
import { streamText, wrapLanguageModel } from "ai";
import { Hono } from "hono";
import { purserMiddleware } from "purser-ai-sdk";
import { Purser, PurserError } from "purser-client";

const PAGE = `<!doctype html><html lang="en"><title>Chat</title>
<p>You have <output id="credits">…</output>.</p><form><input name="prompt" required> <button>Send</button></form><pre></pre>
<script type="module">
  const show = async () => { credits.textContent = await (await fetch("/credits")).text(); };
  document.forms[0].onsubmit = async (event) => {
    event.preventDefault();
    const body = JSON.stringify({ prompt: event.target.prompt.value });
    const answer = await fetch("/chat", { method: "POST", body });
    const pre = document.querySelector("pre");
    pre.textContent = "";
    for await (const text of answer.body.pipeThrough(new TextDecoderStream())) pre.append(text);
    show();
  };
  show();
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
    // Take the user from your session, never from the request's body.
    const userId = await userOf(c);
    const { prompt } = await c.req.json();
    const middleware = purserMiddleware({ purser, userId, event: "chat.completion" });
    let failed;
    const { textStream } = streamText({
      model: wrapLanguageModel({ model, middleware }),
      prompt,
      maxOutputTokens: 500,
      // When the user leaves, the provider stops, and what it did until then is charged.
      abortSignal: c.req.raw.signal,
      onError: ({ error }) => {
        failed = error;
      },
    });
    // The first word comes once the credits are reserved, so a shortage still becomes a status.
    const reader = textStream.getReader();
    const first = await reader.read();
    if (failed instanceof PurserError && [402, 429].includes(failed.status)) return c.text(failed.code, failed.status);
    if (failed) return c.text("The chat does not work now.", 502);
    const text = new ReadableStream({
      start: (controller) => (first.done ? controller.close() : controller.enqueue(first.value)),
      pull: async (controller) => {
        const { done, value } = await reader.read();
        done ? controller.close() : controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return c.body(text.pipeThrough(new TextEncoderStream()));
  });
  return app;
}
