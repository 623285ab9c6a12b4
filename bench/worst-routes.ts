import { createHmac } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ADMIN_TOKEN, APP_ID, EXPORT_SECRET, PACK_ID, root, SECRET_KEY } from "./serve.ts";
import { bearer, FORM, filled, MIB, type Shape, times, utf8 } from "./worst-captures.ts";

export const SIGNING_SECRET = "whsec_0123456789abcdef0123456789abcdef";
export const SESSION_ID = "ses_worst";

const hmac = (secret: string, text: string) => createHmac("sha256", secret).update(text);

type Operation = { readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> } };
const { paths } = JSON.parse(readFileSync(join(root, ".purser/reference/openapi.json"), "utf8")) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
/** The routes of PostHog's clients. worst-captures.ts has their shapes. */
const CAPTURES = /^\/(batch|e|i|capture|track|flags|decide)\b/;

/** JSON of the worst forms. */
const texts = (bytes: number): Readonly<Record<string, string>> => ({
  objects: filled("[", "{},", "{}]", bytes),
  lists: filled("[", "[],", "[]]", bytes),
  levels: "[".repeat(bytes / 2) + "]".repeat(bytes / 2),
  "levels and a long number": `${"[".repeat(bytes / 2 - 40)}12345678901234567890123${"]".repeat(bytes / 2 - 40)}`,
  "objects and a long number": filled("[1234567890123456789012345,", "{},", "{}]", bytes),
  "long numbers": filled("[", "12345678901234567890,", "1]", bytes),
  digits: `[${"1".repeat(bytes - 10)}]`,
  names: `{${times(90_000, (n) => `"${n.toString(36)}":1`).join()}}`,
  "objects of other names": `[${times(60_000, (n) => `{"k${n}":1}`).join()}]`,
});

function jsonShape(method: string, path: string, name: string, text: string, type = "json"): Shape {
  const timestamp = Math.floor(Date.now() / 1_000);
  const signature = `t=${timestamp},v1=${hmac(SIGNING_SECRET, `${timestamp}.${text}`).digest("hex")}`;
  const key = path.startsWith("/api/v1/admin/") ? ADMIN_TOKEN : SECRET_KEY;
  // Stripe's route reads the signature alone, and the others read the key alone.
  const headers = { ...bearer(key), "content-type": `application/${type}`, "stripe-signature": signature };
  const shown = path.replace("/api/v1/", "").replace(APP_ID, "{appId}");
  const kind = type === "json" ? "" : ` as ${type}`;
  return { name: `${method} ${shown}${kind}: ${name}`, method, path, body: utf8(text), headers };
}

const post = (path: string, name: string, text: string, type?: string) =>
  jsonShape("POST", `/api/v1/${path}`, name, text, type);

/** One function reads all bodies, so two routes get all texts, and the others only the most expensive. */
const READ_MOST = ["/api/v1/usage/events", "/api/v1/credits/grant"];
const MOST_EXPENSIVE = ["names", "long numbers", "objects of other names"];

/** Every operation of the reference that takes JSON. */
export function everyRoute(): Shape[] {
  const ids: Readonly<Record<string, string>> = { appId: APP_ID, packId: PACK_ID, mode: "live" };
  return Object.entries(paths).flatMap(([path, operations]) => {
    if (CAPTURES.test(path)) return [];
    const url = path.replaceAll(/\{(\w+)\}/g, (_, name) => ids[name] ?? `${name}_none`);
    const isSent = (name: string) => READ_MOST.includes(path) || MOST_EXPENSIVE.includes(name);
    const named = Object.entries(texts(MIB)).filter(([name]) => isSent(name));
    return Object.entries(operations).flatMap(([method, { requestBody }]) =>
      Object.keys(requestBody?.content ?? {}).flatMap((type) =>
        named.map(([name, text]) => jsonShape(method.toUpperCase(), url, name, text, type.replace("application/", ""))),
      ),
    );
  });
}

const list = (count: number, make: (n: number) => string) => `[${times(count, make).join()}]`;
const numbers = `{${times(700, (m) => `"n${m}":${m}.5`).join()}}`;
const eventOf = (user: string, n: number, properties = "{}") =>
  `{"eventId":"${user} ${n}","userId":"${user}","event":"chat.e","onShortage":"partial","properties":${properties}}`;
const cloudEvent = (n: number) =>
  `{"specversion":"1.0","id":"c${n}","source":"s","type":"e","subject":"u",${times(300, (m) => `"x${m}":"${n}"`).join()},"data":{"properties":${numbers}}}`;
const refund = (n: number) =>
  `{"userId":"refunded","externalRef":"live 0","refundRef":"${n}","share":{"part":1,"of":100}}`;
const item = (rules: number) =>
  `{"amount":1,"unit":"count","matches":${list(rules, () => '{"event":"*a*a*a*a*a*a*a*a*b"}')}}`;
const prices = (count: number) =>
  `{"mode":"live","setting":{"prices":${list(count, (n) => `{"price":"price_${n}","packId":"${PACK_ID}"}`)}}}`;
const line = (n: number) =>
  `{"id":"il_${n}","amount":1,"quantity":100,"pricing":{"price_details":{"price":"price_1"}},"period":{"start":1,"end":9000000000}}`;
const movement = (n: number) =>
  `{"id":"txn_${n}","amount":-1,"currency":"usd","net":-1,"reporting_category":"dispute"}`;
const ADMIN = `admin/apps/${APP_ID}`;

const stripeEvents = (): Readonly<Record<string, string>> => ({
  "invoice.paid": `"id":"in_1","amount_paid":1,"metadata":{"user":"u"},"lines":{"data":${list(7_000, line)}}`,
  "charge.dispute.funds_reinstated": `"id":"dp_1","charge":"ch_1","amount":1,"payment_intent":"pi_1","balance_transactions":${list(10_000, movement)}`,
  "checkout.session.completed": `"id":"cs_1","mode":"payment","payment_status":"paid","metadata":{${times(60_000, (n) => `"k${n}":"v"`).join()}}`,
  "charge.refunded": `"id":"ch_1","a":${"[".repeat(900)}${"]".repeat(900)},"amount_refunded":1,"amount_captured":2`,
});
/** Bodies that are valid for their route, and make it work hard. A key has the method, the path and the shape's name. */
const heavy = (): Readonly<Record<string, string>> => ({
  "POST usage/events 100 events of 10 kB": list(100, (n) => eventOf("u", n, numbers)),
  "POST usage/events 100 events of 10 kB, of 100 users": list(100, (n) => eventOf(`u${n}`, n, numbers)),
  "POST usage/events 100 events of a user of 1,000 balances of 20 rules": list(100, (n) => eventOf("heavy", n)),
  "POST credits/plan of a user of 1,000 balances of 20 rules": '{"userId":"heavy","event":"chat.e"}',
  "POST erase-person 170,000 ids": `{"distinctId":"u","distinctIds":${list(170_000, () => '"a"')}}`,
  "POST erase-person 10,000 ids": '{"distinctId":"many","dryRun":true}',
  "POST erase-person wrong 10,000 ids": `{"distinctId":"many","distinctIds":${list(10_000, (n) => `"id ${n}"`)}}`,
  [`POST ${ADMIN}/packs 100 items of 100 rules`]: `{"packName":"Worst","items":${list(100, () => item(100))}}`,
  [`POST ${ADMIN}/packs 20,000 items`]: `{"packName":"Worst","items":${list(20_000, () => item(0))}}`,
  [`PUT ${ADMIN}/stripe 15,000 prices`]: prices(15_000),
  [`PUT ${ADMIN}/stripe 100 prices`]: prices(100),
  [`PUT ${ADMIN}/expiry-notices 200,000 days`]: `{"mode":"live","days":${list(200_000, (n) => `${n % 365}`)}}`,
  [`POST ${ADMIN}/webhooks 200,000 types`]: `{"mode":"live","url":"https://a.example.com","types":${list(200_000, () => '"a"')}}`,
  [`POST ${ADMIN}/webhooks a long URL`]: `{"mode":"live","url":"https://a.example.com/${"%41".repeat(340_000)}"}`,
  [`POST ${ADMIN}/alerts a long event`]: `{"mode":"live","name":"a","unit":"count","event":"${"*a".repeat(500_000)}","below":{"amount":1}}`,
  [`PUT ${ADMIN}/end-user-auth 40,000 origins`]: `{"mode":"live","setting":{"type":"jwks","url":"https://a.example.com","origins":${list(40_000, (n) => `"https://${n}.example.com"`)}}}`,
  [`POST ${ADMIN}/verify users`]: '{"mode":"live"}',
});

export function heavyBodies(): Shape[] {
  let sent = 0;
  /** A write for a user with nearly as many balances as a user may have (L6). */
  const ofWhale = (path: string, idName: string): Shape => {
    const makeBody = () =>
      utf8(`{"${idName}":"res_whale_${++sent}","userId":"whale","event":"chat.e","quantities":{"tokens":1}}`);
    // The rows of all balances that may pay have some 4 MB.
    return { ...post(path, "of 36,000 balances", ""), body: makeBody(), makeBody, cpuSecondsMax: 0.45 };
  };
  return [
    ...Object.entries(texts(MIB - 200)).map(([name, text]) =>
      post("usage/events", `properties of ${name}`, eventOf("u", 0, `{"a":${text}}`)),
    ),
    ...Object.entries(stripeEvents()).map(([type, fields]) => {
      const object = `{"currency":"usd",${fields}}`;
      const event = `{"id":"evt_${type}","type":"${type}","created":1,"livemode":true,"data":{"object":${object}}}`;
      return post(`stripe/${APP_ID}/live`, type, event);
    }),
    ...Object.entries(heavy()).map(([key, text]) => {
      const [method = "", path, ...name] = key.split(" ");
      return jsonShape(method, `/api/v1/${path}`, name.join(" "), text);
    }),
    post("usage/events", "100 events of 10 kB", list(80, cloudEvent), "cloudevents-batch+json"),
    { ...post("credits/refund", "the last of 100", refund(99)), before: times(99, refund).map(utf8) },
    ofWhale("usage/events", "eventId"),
    ofWhale("usage/reservations", "reservationId"),
  ];
}

/** Reads of large data. */
export function heavyReads(): Shape[] {
  const page = (name: string, path: string, headers: Shape["headers"] = {}): Shape => ({
    ...{ name: `GET ${name}`, path, headers, method: "GET", body: new Uint8Array() },
  });
  const get = (path: string, key = SECRET_KEY) => page(path, `/api/v1/${path}`, bearer(key));
  const past = new Date(Date.now() - 1_000).toISOString();
  const download = (distinctId: string): Shape => {
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const claims = JSON.stringify({ appId: APP_ID, mode: "live", distinctId, expiresAt });
    const payload = Buffer.from(claims).toString("base64url");
    const token = `${payload}.${hmac(EXPORT_SECRET, payload).digest("base64url")}`;
    // Rows of 4 MB at a time exist several times: as rows, as text, and as bytes.
    // The answer of `large` has 8 MB.
    const ofAnswer = { bytesMax: 48 * MIB, cpuSecondsMax: 0.35 };
    return { ...page(`export-download: ${distinctId}`, `/api/v1/export-download?token=${token}`), ...ofAnswer };
  };
  return [
    get("credits?userId=heavy"),
    get(`credits?userId=heavy&event=${"*a".repeat(99)}`),
    get(`credits?userId=heavy&includeExpired=true&asOf=${past}`),
    get("credits?userId=many%20balances"),
    // A list has no pages, and holds each balance as a row and as text. The answer has some 10 MB.
    { ...get("credits?userId=whale"), bytesMax: 80 * MIB, cpuSecondsMax: 0.6 },
    get("credits/history?userId=long&limit=500"),
    get(`credits?userId=long&asOf=${past}`),
    get("credits?userId=long&asOf=1970-01-01T00:00:00.001Z"),
    get("credits/verify?userId=long"),
    get("credits/users?limit=500"),
    get("usage?userId=long"),
    get("usage/reservations?userId=long&limit=500"),
    get(`${ADMIN}/payments?mode=live&limit=500`, ADMIN_TOKEN),
    ...["many", "large"].map(download),
    ...["many", "large"].map((id) =>
      page(`person's page: ${id}`, `${PAGES}/people?distinctId=${id}`, { cookie: COOKIE }),
    ),
  ];
}

const PAGES = `/admin/apps/${APP_ID}/live`;
/** The cookie of a session of the dashboard, and the token of its forms (src/auth/admin-session.ts). */
const signed = (what: "session" | "form") =>
  hmac(ADMIN_TOKEN, `purser dashboard ${what}\n${SESSION_ID}`).digest("base64url");
const COOKIE = `purser_session=${SESSION_ID}.${signed("session")}`;

/** The path of every form of the dashboard, as src/dashboard mounts it, with ids that nobody has. */
function formPaths(): string[] {
  const ids: Readonly<Record<string, string>> = { packId: PACK_ID, webhookId: "whe_none", erasureId: "era_none" };
  const sources = globSync("src/dashboard/*.tsx", { cwd: root }).map((file) => readFileSync(join(root, file), "utf8"));
  const all = sources.join();
  const constants = new Map(Array.from(all.matchAll(/const ([A-Z_]+) = "([^"]+)"/g), ([, name, path]) => [name, path]));
  const found = Array.from(all.matchAll(/\.post\(\s*(?:["`](.+?)["`]|([A-Z_]+)),/g), ([, path, name]) =>
    (path ?? `\${${name}}`).replaceAll(/\$\{(\w+)\}/g, (_, constant) => constants.get(constant) ?? ""),
  );
  const own = (path: string) => (/^\/(apps|sign-in|sign-out)/.test(path) ? "/admin" : PAGES);
  return found.map((path) => own(path) + path.replaceAll(/:(\w+)/g, (_, name) => ids[name] ?? "none")).sort();
}

/** The fields that some form reads as a list, by lines, commas or JSON, and those of a person or a user. */
const LISTS = ["types", "days", "prices", "signingSecrets", "origins", "event", "distinctIds", "distinctId", "userId"];

/** Forms of the dashboard, with and without a session. */
export function formShapes(): Shape[] {
  const form = (name: string, path: string, text: string, headers: Shape["headers"] = FORM): Shape => ({
    ...{ name: `${path.split("/").slice(2).join("/")}: ${name}`, path, body: utf8(text), headers },
  });
  const signedIn = (name: string, path: string, text: string) =>
    form(name, path, `_form=${signed("form")}&${text}`, { ...FORM, cookie: COOKIE });
  const many = times(24_990, (n) => `f${n}=%E2%82%AC%E2%82%AC`).join("&");
  const listsOf = (part: string) => {
    const value = part.repeat(Math.floor(MIB / part.length / LISTS.length) - 20);
    return LISTS.map((field) => `${field}=${value}`).join("&");
  };
  const items = (count: number) =>
    times(count, (n) => `items.${n}.amount=1&items.${n}.unit=count&items.${n}.rules.0.event=a*b*c*d*`).join("&");
  const rules = times(8_000, (n) => `items.0.rules.${n}.event=*a*a*a*a*a*a*a*a*b`).join("&");
  const pack = "kind=items&packName=p";
  return [
    ...Object.entries({
      "many fields": many,
      "a long field": `a=${"%E2%82%AC".repeat(110_000)}`,
      "a long name": `${"%3C".repeat(300_000)}=1`,
    }).flatMap(([name, text]) => [
      form(name, "/admin/sign-in", text),
      form(`${name}, without a session`, `${PAGES}/packs`, text),
    ]),
    ...[`${PAGES}/packs`, `${PAGES}/packs/new/try`].flatMap((path) => [
      signedIn("8,000 items", path, `${pack}&try.event=${"ab".repeat(100)}&${items(8_000)}`),
      signedIn("8,000 rules", path, `${pack}&items.0.amount=1&try.event=${"a".repeat(200)}&${rules}`),
      signedIn("an event of separators", path, `${pack}&try.event=${".".repeat(900_000)}`),
    ]),
    // The paths are sorted, so that signing out, which ends the session, comes last.
    ...formPaths().flatMap((path) => [
      signedIn("many fields", path, many),
      signedIn("lines", path, listsOf("%0D%0A")),
      signedIn("commas", path, listsOf("a,")),
    ]),
  ];
}
