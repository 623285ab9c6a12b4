/** An integrator's backend: turns a paid Stripe checkout into a Purser grant. Run it with `node examples/stripe-webhook.mjs`. */
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import Stripe from "stripe";

/** Grants what was bought. The session's id as `externalRef` makes every repeat of the webhook harmless. */
async function grant({ purserUrl, secretKey }, session) {
  const response = await fetch(`${purserUrl}/api/v1/credits/grant`, {
    method: "POST",
    headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      userId: session.client_reference_id,
      packId: session.metadata.pack,
      externalRef: session.id,
    }),
  });
  if (!response.ok) throw new Error(`Purser answered ${response.status}`);
  return response.json();
}

export function backend(settings) {
  return createServer(async (request, response) => {
    let event;
    try {
      const body = await buffer(request);
      event = Stripe.webhooks.constructEvent(body, request.headers["stripe-signature"], settings.webhookSecret);
    } catch {
      return response.writeHead(400).end("The signature does not verify.");
    }
    try {
      const isPaid = event.type === "checkout.session.completed" && event.data.object.payment_status === "paid";
      const granted = isPaid ? await grant(settings, event.data.object) : null;
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(granted));
    } catch {
      response.writeHead(502).end("Not granted; Stripe will deliver again.");
    }
  });
}

if (import.meta.main) {
  const { STRIPE_WEBHOOK_SECRET: webhookSecret, PURSER_URL: purserUrl, PURSER_SECRET_KEY: secretKey } = process.env;
  backend({ webhookSecret, purserUrl, secretKey }).listen(4242);
}
