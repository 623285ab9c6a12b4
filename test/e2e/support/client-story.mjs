// Each runtime runs this with the built client: `node client-story.mjs <dist/index.js> <url of Purser> <secret key>`. Prints JSON.
import process from "node:process";
import { pathToFileURL } from "node:url";

const [file = "", url = "", key = ""] = process.argv.slice(2);
const { InsufficientCredits, Purser, PurserError, verifyWebhook } = await import(pathToFileURL(file).href);

const purser = new Purser({ url, key });
const userId = `user-${crypto.randomUUID()}`;
const chat = (tokens) => ({ userId, event: "chat", quantities: { tokens } });

const codeOf = (call) =>
  call.then(
    () => "none",
    (error) => [error instanceof PurserError, error instanceof InsufficientCredits, error.code ?? error.name],
  );

const granted = await purser.grantCredits({ userId, packId: "tokens", quantity: 100 });
const { debits } = await purser.recordUsageEvent(chat(10));
const held = await purser.usage.hold(chat(50), async ({ used }) => {
  used({ tokens: 5 });
  return "done";
});
const left = new AbortController();
const aborted = await codeOf(
  purser.usage.hold({ ...chat(50), signal: left.signal }, async ({ used }) => {
    used({ tokens: 7 });
    left.abort();
    left.signal.throwIfAborted();
  }),
);
const failed = await codeOf(purser.usage.hold(chat(50), () => Promise.reject(new RangeError("broken"))));
const short = await codeOf(purser.recordUsageEvent(chat(1_000)));
const late = await codeOf(purser.listBalances({ userId }, { signal: AbortSignal.abort() }));
const deltas = [];
for await (const { delta } of purser.listLedgerEntries({ userId, limit: 3 })) deltas.push(delta);

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const id = "msg_1";
const timestamp = String(Math.floor(Date.now() / 1_000));
const bytes = Uint8Array.from(atob(secret.slice(6)), (character) => character.charCodeAt(0));
const hmac = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
const mac = await crypto.subtle.sign(
  "HMAC",
  hmac,
  new TextEncoder().encode(`${id}.${timestamp}.{"type":"purser.test"}`),
);
const signature = `v1,${btoa(String.fromCharCode(...new Uint8Array(mac)))}`;
const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature };
const { type } = await verifyWebhook(headers, '{"type":"purser.test"}', secret);
const forged = await codeOf(verifyWebhook(headers, '{"type":"purser.tost"}', secret));

console.log(
  JSON.stringify({
    granted: granted.remaining,
    paid: debits[0].remaining,
    held: [held.result, held.usage.debits[0].remaining],
    aborted,
    failed,
    short,
    late,
    deltas,
    hasBookmark: purser.bookmark !== null,
    type,
    forged,
  }),
);
