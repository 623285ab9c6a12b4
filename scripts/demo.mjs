/** `npm run demo`: sends the whole example to the running server, and prints each request and response. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import Stripe from "stripe";
import { receiver } from "../examples/webhook-receiver.mjs";
import { localSecrets, serverUrl } from "./local-state.mjs";
import { PERSON, readDemo, signingSecretOf, userToken } from "./seed.mjs";
import { bold, cyan, dim, green, yellow } from "./terminal.mjs";

const LINE_WIDTH = 104;

let chapter = 0;
function printTitle(title, words) {
  chapter++;
  console.log(`\n${bold(`${chapter}. ${title}`)}\n${dim(`   ${words}`)}`);
}

/** JSON for reading. A value that fits is on one line, and plain fields share lines. */
function layOut(value, indent = "") {
  const line = JSON.stringify(value);
  if (typeof value !== "object" || value === null || line.length + indent.length <= LINE_WIDTH) return line;
  const inner = `${indent}  `;
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((entry) => layOut(entry, inner))
    : Object.entries(value).map(([name, entry]) => `${JSON.stringify(name)}: ${layOut(entry, inner)}`);
  const lines = [];
  for (const part of parts) {
    const joined = `${lines.at(-1)}, ${part}`;
    const fits = !isList && lines.length > 0 && !joined.includes("\n") && joined.length + inner.length <= LINE_WIDTH;
    if (fits) lines[lines.length - 1] = joined;
    else lines.push(part);
  }
  const [open, close] = isList ? "[]" : "{}";
  return `${open}\n${lines.map((text) => inner + text).join(",\n")}\n${indent}${close}`;
}

function show(value) {
  console.log(
    layOut(value)
      .split("\n")
      .map((line) => `     ${line}`)
      .join("\n"),
  );
}

/** Prints a response and returns its JSON. An unexpected status stops the demo. */
async function printResponse(response, expected = 200) {
  const replayed = response.headers.get("idempotent-replayed") === "true" ? yellow("  idempotent-replayed: true") : "";
  console.log(`   ${(response.ok ? green : yellow)(response.status)}${replayed}`);
  const text = await response.text();
  if (response.status !== expected)
    throw new Error(`The demo expected the status ${expected}. The response was: ${text}`);
  const answer = JSON.parse(text);
  show(answer);
  return answer;
}

async function send(url, method, path, { key, body, headers = {}, who = "secret key", expected = 200 } = {}) {
  console.log(`\n   ${cyan(`${method} ${path}`)}  ${dim(who)}`);
  if (body !== undefined) console.log(dim(`     ${JSON.stringify(body)}`));
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return printResponse(response, expected);
}

/** Sends one of Stripe's events to Purser, signed as Stripe signs it. */
async function deliver({ url, demo, secret }, type, object) {
  const path = `/api/v1/stripe/${demo.appId}/live`;
  const created = Math.floor(Date.now() / 1_000);
  const event = { id: `evt_${randomUUID()}`, object: "event", type, created, livemode: true, data: { object } };
  const payload = JSON.stringify(event);
  const signature = Stripe.webhooks.generateTestHeaderString({ payload, secret });
  console.log(`\n   ${cyan(`POST ${path}`)}  ${dim(`Stripe, signed: ${type}`)}`);
  const response = await fetch(url + path, {
    method: "POST",
    headers: { "stripe-signature": signature },
    body: payload,
  });
  return printResponse(response);
}

/** Lets the user buy a pack. Returns the values that a refund needs. */
async function pay(url, demo, user) {
  const stripe = { url, demo, secret: signingSecretOf(demo) };
  const paymentIntent = `pi_${randomUUID().replaceAll("-", "")}`;
  const session = {
    id: `cs_${randomUUID().replaceAll("-", "")}`,
    object: "checkout.session",
    mode: "payment",
    payment_status: "paid",
    payment_intent: paymentIntent,
    amount_subtotal: 1500,
    amount_total: 1500,
    currency: "usd",
    client_reference_id: user,
    metadata: { pack: "starter" },
  };
  const first = await deliver(stripe, "checkout.session.completed", session);
  const second = await deliver(stripe, "checkout.session.completed", session);
  const isOnce = first.outcome === "granted" && second.outcome !== "granted";
  console.log(`\n   ${isOnce ? green("✓ delivered twice, granted once") : yellow("✗ not granted once")}`);
  if (!isOnce) process.exitCode = 1;
  return { stripe, paymentIntent };
}

/** Refunds two thirds of the price. Purser takes back two thirds of the credits, or as much of them as remains. */
async function refund({ stripe, paymentIntent }) {
  await deliver(stripe, "charge.refunded", {
    id: `ch_${randomUUID().replaceAll("-", "")}`,
    object: "charge",
    payment_intent: paymentIntent,
    amount_captured: 1500,
    amount_refunded: 1000,
    currency: "usd",
  });
}

async function spend(ask, user) {
  const usage = { userId: user, event: "chat.completion", model: "small-2", quantities: { tokens: 1200, cents: 0.36 } };
  await ask("POST", "/api/v1/credits/plan", { body: usage });
  const event = { eventId: `chat-${randomUUID().slice(0, 8)}`, ...usage };
  await ask("POST", "/api/v1/usage/events", { body: event });
  await ask("POST", "/api/v1/usage/events", { body: event });
}

async function spendMore(ask, user) {
  const book = { userId: user, event: "chat.completion", model: "small-2", quantities: { tokens: 120_000, cents: 36 } };
  await ask("POST", "/api/v1/usage/events", { body: { eventId: `book-${randomUUID().slice(0, 8)}`, ...book } });
  const library = { userId: user, event: "chat.completion", model: "large-1", quantities: { cents: 900 } };
  const body = { eventId: `library-${randomUUID().slice(0, 8)}`, ...library };
  await ask("POST", "/api/v1/usage/events", { body, expected: 402 });
}

async function reserve(ask, user) {
  const hold = { userId: user, event: "transcribe", quantities: { seconds: 600 }, expiresInSeconds: 120 };
  const { reservationId } = await ask("POST", "/api/v1/usage/reservations", { body: hold });
  await ask("POST", `/api/v1/usage/reservations/${reservationId}/commit`, {
    body: { eventId: `call-${reservationId}`, quantities: { seconds: 431.5 } },
  });
}

async function download(ask) {
  const { downloadUrl } = await ask("POST", "/api/v1/export-person", { body: { distinctId: PERSON } });
  console.log(`\n   ${cyan("GET /api/v1/export-download?token=…")}  ${dim("anyone with the link")}`);
  const response = await fetch(downloadUrl);
  const text = await response.text();
  const document = JSON.parse(text);
  console.log(`   ${green(response.status)}  ${dim(`${text.length.toLocaleString("en")} characters`)}`);
  const { person, events, consentLog, ...rest } = document;
  show({
    ...rest,
    person: { personId: person.personId, distinctIds: person.distinctIds, properties: person.properties },
    "events.analytics": `${events.analytics.length} entries`,
    "events.metering": `${events.metering.length} entries`,
    consentLog: `${consentLog.length} entries`,
    "person.credits": `${person.credits.balances.length} balances, ${person.credits.ledger.length} ledger entries`,
    "person.exports": `${person.exports.length} audit entries`,
  });
}

/** Starts an endpoint in this process, which receives the messages of the story. */
async function listen(url, demo) {
  const headers = { authorization: `Bearer ${localSecrets().ADMIN_TOKEN}`, "content-type": "application/json" };
  const path = `${url}/api/v1/admin/apps/${demo.appId}/webhooks`;
  const probe = createServer();
  await new Promise((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  const body = JSON.stringify({ mode: "live", url: `http://127.0.0.1:${port}/`, types: ["**"] });
  const created = await fetch(path, { method: "POST", headers, body });
  if (!created.ok) throw new Error(`The endpoint was not created: ${await created.text()}`);
  const { webhookId, secret } = await created.json();
  const messages = [];
  const server = receiver(secret, (message) => messages.push(message));
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const close = async () => {
    await fetch(`${path}/${webhookId}`, { method: "DELETE", headers });
    server.close();
  };
  return { messages, close };
}

const MESSAGES_WITHIN_MS = 15_000;

/** Waits for the last message of the story, and prints all messages that the endpoint received. */
async function printMessages({ messages, close }) {
  const isLast = ({ data }) => data.action === "opened";
  for (let ms = 0; ms < MESSAGES_WITHIN_MS && !messages.some(isLast); ms += 100) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await close();
  for (const { type, data } of messages) {
    console.log(`\n   ${cyan(type)}`);
    show(data);
  }
}

async function main() {
  const demo = readDemo();
  const url = serverUrl();
  const isUp = await fetch(`${url}/health`).then(
    (response) => response.ok,
    () => false,
  );
  if (!isUp) throw new Error(`Nothing answers at ${url}. Run \`npm start\` in another terminal first.`);
  if (demo === null) throw new Error("The demonstration is not complete. Wait until `npm start` has printed its keys.");
  const isKnown = await fetch(`${url}/api/v1/usage?userId=${PERSON}`, {
    headers: { authorization: `Bearer ${demo.keys.sk_live}` },
  });
  if (!isKnown.ok) throw new Error(`The server at ${url} does not know this demonstration. It may be another Purser.`);
  const { sk_live: key, pk_live: publishable } = demo.keys;
  const user = `user_${randomUUID().slice(0, 8)}`;
  const ask = (method, path, options) => send(url, method, path, { key, ...options });

  const endpoint = await listen(url, demo);
  try {
    await runStory({ url, demo, user, ask, publishable });
  } catch (error) {
    await endpoint.close();
    throw error;
  }
  printTitle("Messages to your backend", "Purser sent each message at once, signed, to an endpoint of this script.");
  await printMessages(endpoint);
  console.log("");
}

async function runStory({ url, demo, user, ask, publishable }) {
  printTitle(
    "A payment",
    `${user} buys the Starter pack. Stripe sends the event to Purser twice, without a backend in between.`,
  );
  const payment = await pay(url, demo, user);
  printTitle("The balance in a browser", "A publishable key, and the user's own sign-in token.");
  const headers = { "x-user-token": await userToken(demo.endUserSecret, user) };
  const who = "publishable key + user token";
  await ask("GET", `/api/v1/credits?userId=${user}`, { key: publishable, headers, who });
  printTitle("Spending", "A preview, an event, and the same event again.");
  await spend(ask, user);
  printTitle(
    "Spending more",
    "The tokens run out, and the wallet pays the rest of the same event. The next event costs more than both can pay.",
  );
  await spendMore(ask, user);
  printTitle("A reservation", "Ten minutes are reserved, and about seven are used. The rest is returned.");
  await reserve(ask, user);
  printTitle(
    "A refund",
    "Stripe refunds 1,000 of 1,500. Purser takes back the same share of the credits, or as much of them as remains.",
  );
  await refund(payment);
  printTitle("The ledger", "The ledger has every change. These are the last six, newest first.");
  await ask("GET", `/api/v1/credits/history?userId=${user}&limit=6`);
  printTitle(
    "A person's data",
    `${PERSON} requests the data: one link to one document, which is generated when the link is opened.`,
  );
  await download(ask);
  printTitle(
    "A request to be forgotten",
    `A dry run of the erasure of ${PERSON} shows what would be erased and kept. It erases nothing.`,
  );
  await ask("POST", "/api/v1/erase-person", { body: { distinctId: PERSON, dryRun: true } });
}

main().catch((error) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
