import { SignJWT } from "jose";
import { END_USER_SECRET } from "./end-user-setting.ts";
import { RECURRING, USAGE } from "./paths.ts";
import type { Answer, Client, Clock, TestApp } from "./world.ts";

/** An end-user's token that is valid for ten minutes. */
export const userToken = (sub: string, clock: Clock, secret: string = END_USER_SECRET): Promise<string> =>
  new SignJWT({ sub })
    .setProtectedHeader({ alg: "HS256" })
    .setExpirationTime(Math.floor(clock.ms / 1_000) + 600)
    .sign(new TextEncoder().encode(secret));

interface Request {
  readonly method?: "GET";
  readonly path: string;
  readonly body?: object;
  readonly headers?: Record<string, string>;
}

/** A way to call Purser with a key. */
export interface KeyedRoute {
  readonly name: string;
  readonly kind: "sk_live" | "pk_live";
  /** Where the key goes. Default: the header. */
  readonly keyIn?: "body" | "path";
  readonly writes: boolean;
  /** A request with the secret key that prepares the call. */
  readonly before?: (tag: string) => Request;
  /** `tag` makes each call different, so that each call writes something. */
  readonly request: (tag: string, token: string) => Request;
}

const use = { event: "chat.done", quantities: { count: 0, tokens: 0.001 } };
const userRequest = (path: string, fields: object): Request => ({ path, body: { userId: "u", ...fields } });
const reservationRequest = (tag: string) =>
  userRequest(`${USAGE}/reservations`, { ...use, reservationId: `res_${tag}` });
const recurringRequest = (tag: string) =>
  userRequest(RECURRING, { recurringId: `rec_${tag}`, packId: "Pack", every: "month" });
const consentRequest = (tag: string) => ({
  path: "/api/v1/consent",
  body: { distinctId: "u", purpose: tag, decision: "granted" },
});
const taggedEvent = (tag: string) => ({ uuid: uuidOf(tag), event: "seen", distinct_id: "u", properties: {} });
const v1 = (tag: string) => ({ path: "/i/v1/analytics/events", body: { batch: [taggedEvent(tag)] } });

/** Returns the same UUID for the same tag. */
function uuidOf(tag: string): string {
  const hex = [...tag].reduce((sum, character) => (sum * 31 + character.charCodeAt(0)) % 2 ** 40, 7);
  return `00000000-0000-4000-8000-${hex.toString(16).padStart(12, "0")}`;
}

/** Every kind of route that needs a key. The application must have the pack "Pack", and its user "u" must have credits. */
export const keyedRoutes: readonly KeyedRoute[] = [
  { name: "list", kind: "sk_live", writes: false, request: () => ({ path: "/api/v1/credits?userId=u" }) },
  {
    name: "list by reference as of a moment",
    kind: "sk_live",
    writes: false,
    request: () => ({ path: "/api/v1/credits?userId=u&externalRef=order&asOf=2026-01-01T00:00Z" }),
  },
  { name: "users", kind: "sk_live", writes: false, request: () => ({ path: "/api/v1/credits/users" }) },
  { name: "verify", kind: "sk_live", writes: false, request: () => ({ path: "/api/v1/credits/verify?userId=u" }) },
  {
    name: "list of an end-user",
    kind: "pk_live",
    writes: false,
    request: (_, token) => ({ path: "/api/v1/credits?userId=u", headers: { "x-user-token": token } }),
  },
  { name: "history", kind: "sk_live", writes: false, request: () => ({ path: "/api/v1/credits/history?userId=u" }) },
  { name: "totals", kind: "sk_live", writes: false, request: () => ({ path: `${USAGE}?userId=u` }) },
  { name: "usage events", kind: "sk_live", writes: false, request: () => ({ path: `${USAGE}/events?userId=u` }) },
  {
    name: "members",
    kind: "sk_live",
    writes: false,
    request: () => ({ path: `${USAGE}/members?userId=u&from=2026-01-01T00:00Z&to=2026-02-01T00:00Z` }),
  },
  {
    name: "usage event of a member",
    kind: "sk_live",
    writes: true,
    request: (tag) => userRequest(`${USAGE}/events`, { ...use, eventId: tag, memberId: `m ${tag}` }),
  },
  {
    name: "usage events of an end-user",
    kind: "pk_live",
    writes: false,
    request: (_, token) => ({ path: `${USAGE}/events?userId=u`, headers: { "x-user-token": token } }),
  },
  {
    name: "totals of an end-user",
    kind: "pk_live",
    writes: false,
    request: (_, token) => ({
      path: `${USAGE}?userId=u&from=2026-01-01T00:00Z&groupBy=day,model`,
      headers: { "x-user-token": token },
    }),
  },
  {
    name: "recurring grants",
    kind: "sk_live",
    writes: false,
    request: () => ({ path: `${RECURRING}?userId=u` }),
  },
  {
    name: "recurring grants of an end-user",
    kind: "pk_live",
    writes: false,
    request: (_, token) => ({ path: `${RECURRING}?userId=u`, headers: { "x-user-token": token } }),
  },
  { name: "recurring grant", kind: "sk_live", writes: true, request: recurringRequest },
  {
    name: "end of a recurring grant",
    kind: "sk_live",
    writes: true,
    before: recurringRequest,
    request: (tag) => ({ path: `${RECURRING}/rec_${tag}/cancel`, body: { at: "now" } }),
  },
  { name: "usage limits", kind: "sk_live", writes: false, request: () => ({ path: `${USAGE}/limits?userId=u` }) },
  {
    name: "usage limits of an end-user",
    kind: "pk_live",
    writes: false,
    request: (_, token) => ({ path: `${USAGE}/limits?userId=u`, headers: { "x-user-token": token } }),
  },
  { name: "reservations", kind: "sk_live", writes: false, request: () => ({ path: `${USAGE}/reservations?userId=u` }) },
  {
    name: "reservation",
    kind: "sk_live",
    writes: false,
    before: reservationRequest,
    request: (tag) => ({ path: `${USAGE}/reservations/res_${tag}` }),
  },
  { name: "plan", kind: "sk_live", writes: false, request: () => userRequest("/api/v1/credits/plan", use) },
  {
    name: "grant",
    kind: "sk_live",
    writes: true,
    request: () => userRequest("/api/v1/credits/grant", { packId: "Pack" }),
  },
  {
    name: "refund",
    kind: "sk_live",
    writes: true,
    before: (tag) => userRequest("/api/v1/credits/grant", { packId: "Pack", externalRef: `order ${tag}` }),
    request: (tag) => userRequest("/api/v1/credits/refund", { externalRef: `order ${tag}`, refundRef: "re" }),
  },
  {
    name: "usage event",
    kind: "sk_live",
    writes: true,
    request: (tag) => userRequest(`${USAGE}/events`, { ...use, eventId: tag }),
  },
  {
    name: "list of usage events",
    kind: "sk_live",
    writes: true,
    request: (tag) => ({
      path: `${USAGE}/events`,
      body: ["a", "b", "c"].map((part) => ({ userId: "u", ...use, eventId: `${tag} ${part}` })),
    }),
  },
  {
    name: "list of usage events on its own path",
    kind: "sk_live",
    writes: true,
    request: (tag) => ({
      path: `${USAGE}/events/batch`,
      body: ["a", "b"].map((part) => ({ userId: "u", ...use, eventId: `${tag} ${part}` })),
    }),
  },
  { name: "reserve", kind: "sk_live", writes: true, request: reservationRequest },
  {
    name: "commit",
    kind: "sk_live",
    writes: true,
    before: reservationRequest,
    request: (tag) => ({
      path: `${USAGE}/reservations/res_${tag}/commit`,
      body: { eventId: tag, quantities: use.quantities },
    }),
  },
  {
    name: "release",
    kind: "sk_live",
    writes: true,
    before: reservationRequest,
    request: (tag) => ({ path: `${USAGE}/reservations/res_${tag}/release`, body: {} }),
  },
  {
    name: "extend",
    kind: "sk_live",
    writes: true,
    before: reservationRequest,
    request: (tag) => ({ path: `${USAGE}/reservations/res_${tag}/extend`, body: { expiresInSeconds: 600 } }),
  },
  { name: "consent", kind: "sk_live", writes: true, request: consentRequest },
  {
    name: "consent of an end-user",
    kind: "pk_live",
    writes: true,
    request: (tag, token) => ({ ...consentRequest(tag), headers: { "x-user-token": token } }),
  },
  { name: "capture", kind: "sk_live", writes: true, request: v1 },
  { name: "capture from a browser", kind: "pk_live", writes: true, request: v1 },
  {
    name: "capture, key in the body",
    kind: "pk_live",
    keyIn: "body",
    writes: true,
    request: (tag) => ({ path: "/batch/", body: { batch: [taggedEvent(tag)] } }),
  },
  {
    name: "flags",
    kind: "pk_live",
    keyIn: "body",
    writes: false,
    request: () => ({ path: "/flags/", body: { distinct_id: "u" } }),
  },
  {
    name: "remote configuration",
    kind: "pk_live",
    keyIn: "path",
    writes: false,
    request: () => ({ path: "/array/KEY/config" }),
  },
  {
    name: "erase",
    kind: "sk_live",
    writes: true,
    request: (tag) => ({ path: "/api/v1/erase-person", body: { distinctId: tag } }),
  },
  {
    name: "mint",
    kind: "sk_live",
    writes: true,
    request: () => ({ path: "/api/v1/export-person", body: { distinctId: "u" } }),
  },
  {
    name: "end of links",
    kind: "sk_live",
    writes: true,
    request: (tag) => ({ path: "/api/v1/export-person/revoke", body: { distinctId: tag } }),
  },
];

/** Calls a route with a key. */
export async function callKeyed(
  call: Client,
  clock: Clock,
  route: KeyedRoute,
  key: string,
  tag: string,
): Promise<Answer> {
  const { path, body, headers = {} } = route.request(tag, await userToken("u", clock));
  const sent = route.keyIn === "body" ? { ...body, api_key: key } : body;
  return call(body === undefined ? "GET" : "POST", path.replace("KEY", key), {
    headers,
    ...(route.keyIn === undefined ? { key } : {}),
    ...(sent === undefined ? {} : { body: sent }),
  });
}

/** Sends the request that prepares the call, if the route needs one. */
export async function prepareKeyed(call: Client, route: KeyedRoute, app: TestApp, tag: string): Promise<void> {
  const request = route.before?.(tag);
  if (request === undefined) return;
  const { status } = await call("POST", request.path, { key: app.keys.sk_live, body: request.body });
  if (status !== 200) throw new Error(`${route.name}: the preparation got ${status}.`);
}
