/**
 * An endpoint for Purser's messages. It verifies each message, handles it once, and prints it. Run it with
 * `WEBHOOK_SECRET=whsec_… node examples/webhook-receiver.mjs`.
 */
import { realpathSync } from "node:fs";
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";

/** Calls `take` once for each message while this process runs. A real service stores the ids in its database. */
export function receiver(secret, take) {
  const webhook = new Webhook(secret);
  const taken = new Set();
  return createServer(async (request, response) => {
    const body = await text(request);
    let message;
    try {
      message = webhook.verify(body, request.headers);
    } catch {
      return response.writeHead(400).end("The signature does not verify.");
    }
    if (!taken.has(message.id)) await take(message);
    taken.add(message.id);
    response.writeHead(204).end();
  });
}

if (import.meta.filename === realpathSync(process.argv[1])) {
  const { WEBHOOK_SECRET, PORT = "4100" } = process.env;
  if (!WEBHOOK_SECRET) throw new Error("Set WEBHOOK_SECRET.");
  const server = receiver(WEBHOOK_SECRET, ({ type, data }) => console.log(type, JSON.stringify(data)));
  server.listen(Number(PORT), () => console.log(`Give Purser http://localhost:${PORT}/ as the URL of an endpoint.`));
}
