/**
 * Runs an example story with a client that is generated from openapi.json: `node story.ts <url>`, with the administrator's token
 * in ADMIN_TOKEN. It creates an application, and prints the results of the steps as JSON. It has no cast and no `any`, so a call
 * that does not fit the document's types does not compile.
 */
import { createHmac, randomUUID } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "../../.purser/generated/api.d.ts";

type Schemas = components["schemas"];
type Answer<Data> = { readonly data?: Data; readonly error?: Schemas["Error"]; readonly response: Response };

const [, , baseUrl = ""] = process.argv;
const clientWith = (key: string) => createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });

/** Returns the result of a call that must succeed. */
function ok<Data>({ data, error, response }: Answer<Data>): Data {
  if (data === undefined) throw new Error(`${response.url} answered ${response.status} ${error?.error.message}`);
  return data;
}

/** Returns the error of a call that must be refused. */
function refused({ error }: Answer<unknown>): Schemas["ErrorDetail"] {
  if (error === undefined) throw new Error("This should have been refused.");
  return error.error;
}

const SECRET = "a-secret-of-32-bytes-and-no-less!";

/** Returns a user's JWT, as an integrator's sign-in would. */
function jwt(sub: string, expiresInSeconds: number): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Math.floor(Date.now() / 1_000) + expiresInSeconds;
  const signed = `${encode({ alg: "HS256" })}.${encode({ sub, exp })}`;
  return `${signed}.${createHmac("sha256", SECRET).update(signed).digest("base64url")}`;
}

async function openShop() {
  const admin = clientWith(process.env.ADMIN_TOKEN ?? "");
  const { appId } = ok(await admin.POST("/api/v1/admin/apps", { body: { name: "Generated" } }));
  const path = { appId };
  const keyOf = async (kind: Schemas["KeyKind"]) =>
    ok(await admin.POST("/api/v1/admin/apps/{appId}/keys", { params: { path }, body: { kind, mode: "live" } })).key;
  const pack = ok(
    await admin.POST("/api/v1/admin/apps/{appId}/packs", {
      params: { path },
      body: { packName: "Starter", items: [{ amount: 400, unit: "tokens", matches: [{ event: "chat.*" }] }] },
    }),
  );
  const setting = { type: "hs256", secret: SECRET } as const;
  ok(
    await admin.PUT("/api/v1/admin/apps/{appId}/end-user-auth", {
      params: { path },
      body: { mode: "live", setting },
    }),
  );
  const stale = refused(
    await admin.PATCH("/api/v1/admin/apps/{appId}/packs/{packId}", {
      params: { path: { appId, packId: pack.packId } },
      body: { version: pack.version + 1, packName: "Other" },
    }),
  );
  const { key: publishable, secret } = { key: await keyOf("publishable"), secret: await keyOf("secret") };
  return {
    pack,
    publishable,
    secret,
    version: stale.code === "changed_meanwhile" ? (stale.details?.version ?? null) : null,
  };
}

async function spend(backend: ReturnType<typeof clientWith>, userId: string) {
  const chat = { userId, event: "chat.completed", properties: { conversation: "c_17", nested: { any: [1, null] } } };
  const plan = ok(await backend.POST("/api/v1/credits/plan", { body: { ...chat, quantities: { tokens: 100 } } }));
  const send = (eventId: string, tokens: number) =>
    backend.POST("/api/v1/usage/events", { body: { eventId, ...chat, quantities: { tokens } } });
  const event = ok(await send("e1", 100));
  const again = await send("e1", 100);
  const short = refused(await send("e2", 1_000));
  const list = ok(
    await backend.POST("/api/v1/usage/events/batch", {
      body: [
        { eventId: "e3", ...chat, quantities: { tokens: 50 } },
        { eventId: "e4", ...chat, quantities: { tokens: 5_000 } },
      ],
    }),
  );
  return {
    planned: plan.debits.map(({ amount }) => amount),
    debits: event.debits.map(({ amount, remaining }) => [amount, remaining]),
    isReplayed: again.response.headers.get("idempotent-replayed") === "true",
    uncovered: short.code === "insufficient_credits" ? short.details.uncovered.tokens : null,
    list: list.results.map((result) => ("error" in result ? result.error.code : result.debits[0]?.remaining)),
  };
}

async function reserve(backend: ReturnType<typeof clientWith>, userId: string) {
  const body = { userId, event: "chat.completed", quantities: { tokens: 100 }, expiresInSeconds: 60 };
  const hold = ok(await backend.POST("/api/v1/usage/reservations", { body }));
  const params = { path: { reservationId: hold.reservationId } };
  const committed = ok(
    await backend.POST("/api/v1/usage/reservations/{reservationId}/commit", {
      params,
      body: { eventId: "e5", quantities: { tokens: 25 } },
    }),
  );
  const late = refused(await backend.POST("/api/v1/usage/reservations/{reservationId}/release", { params }));
  const totals = ok(await backend.GET("/api/v1/usage", { params: { query: { userId, event: "chat.*" } } }));
  return {
    held: hold.holds.map(({ amount }) => amount),
    paid: committed.debits.map(({ amount }) => amount),
    late: late.code,
    total: totals.totals.flatMap((one) => ("unit" in one && one.unit === "tokens" ? [one.amount] : []))[0],
  };
}

/** Calls what a page in a browser calls, with the publishable key and the user's own token as a parameter. */
async function browse(browser: ReturnType<typeof clientWith>, publishable: string, userId: string) {
  const asUser = (token: string) => ({ "X-User-Token": token });
  const list = (token: string) =>
    browser.GET("/api/v1/credits", { params: { query: { userId }, header: asUser(token) } });
  const { credits } = ok(await list(jwt(userId, 60)));
  const expired = refused(await list(jwt(userId, -120)));
  const consent = ok(
    await browser.POST("/api/v1/consent", {
      params: { header: asUser(jwt(userId, 60)) },
      body: { distinctId: userId, purpose: "analytics", decision: "granted" },
    }),
  );
  ok(
    await browser.POST("/batch", {
      body: { api_key: publishable, batch: [{ event: "seen", distinct_id: userId, properties: { plan: "pro" } }] },
    }),
  );
  return {
    balances: credits.map(({ remaining, status, matches }) => ({ remaining, status, event: matches[0]?.event })),
    expired: expired.code === "invalid_user_token" ? expired.details?.reason : null,
    decision: consent.decision,
  };
}

async function tellStory() {
  const { publishable, secret, version } = await openShop();
  const [backend, browser] = [clientWith(secret), clientWith(publishable)];
  const userId = `user_${randomUUID()}`;
  const grant = { userId, packId: "starter", externalRef: "order-1" };
  const granted = ok(await backend.POST("/api/v1/credits/grant", { body: grant }));
  const repeated = ok(await backend.POST("/api/v1/credits/grant", { body: grant }));
  const spent = await spend(backend, userId);
  const reserved = await reserve(backend, userId);
  const browsed = await browse(browser, publishable, userId);
  const page = ok(await backend.GET("/api/v1/credits/history", { params: { query: { userId, limit: 2 } } }));
  const cursor = page.nextCursor ?? "";
  const next = ok(await backend.GET("/api/v1/credits/history", { params: { query: { userId, limit: 2, cursor } } }));
  const revoked = ok(
    await backend.POST("/api/v1/credits/revoke", { body: { balanceId: granted.balanceId, reason: "order refunded" } }),
  );
  const link = ok(await backend.POST("/api/v1/export-person", { body: { distinctId: userId } }));
  const token = new URL(link.downloadUrl).searchParams.get("token") ?? "";
  const document = ok(await clientWith("").GET("/api/v1/export-download", { params: { query: { token } } }));
  return {
    version,
    isSameBalance: granted.balanceId === repeated.balanceId,
    spent,
    reserved,
    browsed,
    reasons: [...page.entries, ...next.entries].map(({ reason }) => reason),
    revoked: revoked.remaining,
    exported: {
      plan: document.events.analytics[0]?.properties.plan,
      metering: document.events.metering.map(({ eventId }) => eventId),
      consents: document.consentLog.length,
    },
  };
}

console.log(JSON.stringify(await tellStory()));
