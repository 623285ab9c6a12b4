import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { filled, MIB, type Shape, times, utf8 } from "./worst-shapes.ts";

/** Who sends, and what ids there are. */
export interface Sender {
  readonly appId: string;
  readonly adminToken: string;
  readonly secretKey: string;
  readonly signingSecret: string;
}

type Operation = { readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> } };
const { paths } = JSON.parse(readFileSync(join(import.meta.dirname, "../.purser/reference/openapi.json"), "utf8")) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};

/** What takes PostHog's bodies, which have shapes of their own. */
const CAPTURES = /^\/(batch|e|i|capture|track|flags|decide)\b/;

const texts = (bytes: number): [string, string][] => [
  ["objects", filled("[", "{},", "{}]", bytes)],
  ["lists", filled("[", "[],", "[]]", bytes)],
  ["levels", "[".repeat(bytes / 2) + "]".repeat(bytes / 2)],
  ["levels and a long number", `${"[".repeat(bytes / 2 - 40)}12345678901234567890123${"]".repeat(bytes / 2 - 40)}`],
  ["objects and a long number", filled("[1234567890123456789012345,", "{},", "{}]", bytes)],
  ["long numbers", filled("[", "12345678901234567890,", "1]", bytes)],
  ["digits", `[${"1".repeat(bytes - 10)}]`],
  ["names", `{${times(90_000, (n) => `"${n.toString(36)}":1`).join()}}`],
  ["objects of other names", `[${times(60_000, (n) => `{"k${n}":1}`).join()}]`],
];

function jsonShape(sender: Sender, method: string, path: string, name: string, text: string, type = "json"): Shape {
  const body = utf8(text);
  const headers: Record<string, string> = { "content-type": `application/${type}` };
  if (path.startsWith("/api/v1/stripe/")) headers["stripe-signature"] = signatureOf(sender, text);
  else headers.authorization = `Bearer ${path.startsWith("/api/v1/admin/") ? sender.adminToken : sender.secretKey}`;
  const shown = path.replace("/api/v1/", "").replace(sender.appId, "{appId}");
  const kind = type === "json" ? "" : ` as ${type}`;
  return { name: `${method} ${shown}${kind}: ${name}`, method, path, body, bytes: body.length, headers };
}

function signatureOf({ signingSecret }: Sender, text: string): string {
  const timestamp = Math.floor(Date.now() / 1_000);
  return `t=${timestamp},v1=${createHmac("sha256", signingSecret).update(`${timestamp}.${text}`).digest("hex")}`;
}

/** One reader reads all bodies, so the routes of most use have all texts of the worst kind, and the others the dearest of them. */
const READ_MOST = ["/api/v1/usage/events", "/api/v1/credits/grant"];
const DEAREST = ["names", "long numbers", "objects of other names"];

/** Every operation of the reference that takes JSON. */
export function everyRoute(sender: Sender): Shape[] {
  const ids: Readonly<Record<string, string>> = { appId: sender.appId, packId: "cpk_bench", mode: "live" };
  return Object.entries(paths).flatMap(([path, operations]) => {
    if (CAPTURES.test(path)) return [];
    const url = path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name] ?? `${name}_none`);
    return Object.entries(operations).flatMap(([method, { requestBody }]) =>
      Object.keys(requestBody?.content ?? {}).flatMap((type) =>
        texts(MIB)
          .filter(([name]) => READ_MOST.includes(path) || DEAREST.includes(name))
          .map(([name, text]) =>
            jsonShape(sender, method.toUpperCase(), url, name, text, type.replace("application/", "")),
          ),
      ),
    );
  });
}

/** Bodies that pass the form of their route, and make it work. */
export function heavyBodies(sender: Sender): Shape[] {
  const api = (path: string, name: string, text: string, type?: string) =>
    jsonShape(sender, "POST", `/api/v1/${path}`, name, text, type);
  const admin = (method: string, path: string, name: string, text: string) =>
    jsonShape(sender, method, `/api/v1/admin/apps/${sender.appId}/${path}`, name, text);
  const list = (count: number, make: (n: number) => string) => `[${times(count, make).join()}]`;
  const event = (value: string) =>
    `{"eventId":"e","userId":"u","event":"e","onShortage":"partial","properties":{"a":${value}}}`;
  const numbers = `{${times(700, (m) => `"n${m}":${m}.5`).join()}}`;
  const ofUser = (n: number, user: string, properties = "{}") =>
    `{"eventId":"${user} ${n}","userId":"${user}","event":"chat.e","onShortage":"partial","properties":${properties}}`;
  const cloud = (n: number) =>
    `{"specversion":"1.0","id":"c${n}","source":"s","type":"e","subject":"u",${times(300, (m) => `"x${m}":"${n}"`).join()},"data":{"properties":${numbers}}}`;
  const refund = (n: number) =>
    `{"userId":"refunded","externalRef":"live 0","refundRef":"${n}","share":{"part":1,"of":100}}`;
  const rule = '{"event":"*a*a*a*a*a*a*a*a*b"}';
  const item = (rules: number) => `{"amount":1,"unit":"count","matches":${list(rules, () => rule)}}`;
  const stripe = (type: string, name: string, object: string) =>
    api(
      `stripe/${sender.appId}/live`,
      `${type}, ${name}`,
      `{"id":"evt_${name}","type":"${type}","created":1,"livemode":true,"data":{"object":${object}}}`,
    );
  const line = (n: number) =>
    `{"id":"il_${n}","amount":1,"quantity":100,"pricing":{"price_details":{"price":"price_1"}},"period":{"start":1,"end":9000000000}}`;
  const movement = (n: number) =>
    `{"id":"txn_${n}","amount":-1,"currency":"usd","net":-1,"reporting_category":"dispute"}`;
  return [
    ...texts(MIB - 200).map(([name, text]) => api("usage/events", `properties of ${name}`, event(text))),
    api(
      "usage/events",
      "100 events of 10 kB",
      list(100, (n) => ofUser(n, "u", numbers)),
    ),
    api(
      "usage/events",
      "100 events of 10 kB, of 100 users",
      list(100, (n) => ofUser(n, `u${n}`, numbers)),
    ),
    api(
      "usage/events",
      "100 events of a user of 1,000 balances of 20 rules",
      list(100, (n) => ofUser(n, "heavy")),
    ),
    api("usage/events", "100 events of 10 kB", list(90, cloud), "cloudevents-batch+json"),
    api("credits/plan", "of a user of 1,000 balances of 20 rules", '{"userId":"heavy","event":"chat.e"}'),
    api("erase-person", "170,000 ids", `{"distinctId":"u","distinctIds":${list(170_000, () => '"a"')}}`),
    api("erase-person", "10,000 ids", '{"distinctId":"many","dryRun":true}'),
    api(
      "erase-person",
      "other ids than the 10,000",
      `{"distinctId":"many","distinctIds":${list(10_000, (n) => `"id ${n}"`)}}`,
    ),
    { ...api("credits/refund", "the last of 100", refund(99)), before: times(99, (n) => utf8(refund(n))) },
    stripe(
      "invoice.paid",
      "7,000 lines",
      `{"id":"in_1","amount_paid":1,"currency":"usd","metadata":{"user":"u"},"lines":{"data":${list(7_000, line)}}}`,
    ),
    stripe(
      "charge.dispute.funds_reinstated",
      "10,000 movements",
      `{"id":"dp_1","charge":"ch_1","amount":1,"currency":"usd","payment_intent":"pi_1","balance_transactions":${list(10_000, movement)}}`,
    ),
    stripe(
      "checkout.session.completed",
      "metadata of 60,000 names",
      `{"id":"cs_1","mode":"payment","payment_status":"paid","metadata":{${times(60_000, (n) => `"k${n}":"v"`).join()}}}`,
    ),
    stripe(
      "charge.refunded",
      "levels",
      `{"id":"ch_1","a":${"[".repeat(900)}${"]".repeat(900)},"amount_refunded":1,"amount_captured":2,"currency":"usd"}`,
    ),
    admin("POST", "packs", "100 items of 100 rules", `{"packName":"Worst","items":${list(100, () => item(100))}}`),
    admin("POST", "packs", "20,000 items", `{"packName":"Worst","items":${list(20_000, () => item(0))}}`),
    admin(
      "PUT",
      "stripe",
      "15,000 prices",
      `{"mode":"live","setting":{"prices":${list(15_000, (n) => `{"price":"price_${n}","packId":"cpk_bench"}`)}}}`,
    ),
    admin(
      "PUT",
      "stripe",
      "100 prices",
      `{"mode":"live","setting":{"prices":${list(100, (n) => `{"price":"price_${n}","packId":"cpk_bench"}`)}}}`,
    ),
    admin("PUT", "expiry-notices", "200,000 days", `{"mode":"live","days":${list(200_000, (n) => `${n % 365}`)}}`),
    admin(
      "POST",
      "webhooks",
      "200,000 types",
      `{"mode":"live","url":"https://a.example.com","types":${list(200_000, () => '"a"')}}`,
    ),
    admin("POST", "webhooks", "a long URL", `{"mode":"live","url":"https://a.example.com/${"%41".repeat(340_000)}"}`),
    admin(
      "POST",
      "alerts",
      "a long event",
      `{"mode":"live","name":"a","unit":"count","event":"${"*a".repeat(500_000)}","below":{"amount":1}}`,
    ),
    admin(
      "PUT",
      "end-user-auth",
      "40,000 origins",
      `{"mode":"live","setting":{"type":"jwks","url":"https://a.example.com","origins":${list(40_000, (n) => `"https://${n}.example.com"`)}}}`,
    ),
    admin("POST", "verify", "users", '{"mode":"live"}'),
  ];
}

/** Reads of what is large. */
/** What a user with nearly as many balances as one may have (L6) is asked and does. */
export function ofWhale(sender: Sender): Shape[] {
  let sent = 0;
  const post = (path: string, idName: string): Shape => {
    const bodyAnew = () =>
      utf8(`{"${idName}":"res_whale_${++sent}","userId":"whale","event":"chat.e","quantities":{"tokens":1}}`);
    const headers = { authorization: `Bearer ${sender.secretKey}`, "content-type": "application/json" };
    const body = bodyAnew();
    return {
      name: `POST ${path}: of 36,000 balances`,
      path: `/api/v1/${path}`,
      body,
      bodyAnew,
      bytes: body.length,
      headers,
    };
  };
  return [
    {
      ...{ name: "GET credits: of 36,000 balances", method: "GET", path: "/api/v1/credits?userId=whale" },
      ...{ body: new Uint8Array(), bytes: 0, headers: { authorization: `Bearer ${sender.secretKey}` } },
      // A list has no pages, and holds each balance as it is read and as it is told.
      bytesMax: 80 * MIB,
    },
    post("usage/events", "eventId"),
    post("usage/reservations", "reservationId"),
  ];
}

export function heavyReads(sender: Sender): Shape[] {
  const get = (path: string, key = sender.secretKey): Shape => ({
    ...{ name: `GET ${path}`, method: "GET", path: `/api/v1/${path}`, body: new Uint8Array(), bytes: 0 },
    headers: { authorization: `Bearer ${key}` },
  });
  const past = new Date(Date.now() - 1_000).toISOString();
  return [
    get("credits?userId=heavy"),
    get(`credits?userId=heavy&event=${"*a".repeat(99)}`),
    get(`credits?userId=heavy&includeExpired=true&asOf=${past}`),
    get("credits?userId=many%20balances"),
    get("credits/history?userId=long&limit=500"),
    get(`credits?userId=long&asOf=${past}`),
    get("credits?userId=long&asOf=1970-01-01T00:00:00.001Z"),
    get("credits/verify?userId=long"),
    get("credits/users?limit=500"),
    get("usage?userId=long"),
    get("usage/reservations?userId=long&limit=500"),
    get(`admin/apps/${sender.appId}/payments?mode=live&limit=500`, sender.adminToken),
  ];
}
