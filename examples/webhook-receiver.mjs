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
  // A message that arrives again while it is handled waits for the same work.
  const taken = new Map();
  return createServer(async (request, response) => {
    let message;
    try {
      message = webhook.verify(await text(request), request.headers);
    } catch {
      return response.writeHead(400).end("The signature does not verify.");
    }
    try {
      if (!taken.has(message.id)) taken.set(message.id, take(message));
      await taken.get(message.id);
    } catch (error) {
      console.error(error);
      // Purser sends the message again.
      taken.delete(message.id);
      return response.writeHead(500).end("This does not work now.");
    }
    response.writeHead(204).end();
  });
}

if (import.meta.filename === realpathSync(process.argv[1])) {
  const { WEBHOOK_SECRET, PORT = "4100" } = process.env;
  if (!WEBHOOK_SECRET) throw new Error("Set WEBHOOK_SECRET.");
  const server = receiver(WEBHOOK_SECRET, ({ type, data }) => console.log(type, JSON.stringify(data)));
  server.listen(Number(PORT), () => console.log(`Give Purser http://localhost:${PORT}/ as the URL of an endpoint.`));
}
