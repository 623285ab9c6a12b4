import { afterAll, beforeAll, expect, it } from "vitest";
import { columnClasses } from "../support/column-classes.ts";
import { invoice } from "../support/stripe-invoices.ts";
import { stripeSignature } from "../support/stripe-signature.ts";
import { findColumns, findInCopies } from "./support/copies.ts";
import { type KillableServer, startKillableServer } from "./support/killable-server.ts";
import { ADMIN_TOKEN } from "./support/server.ts";

// E7: nothing of an erased person remains in the used pages of the database's file.

/** A part of every id and every text of the person, but for the UUIDs. */
const MARK = "zq7ana";
const DEVICE = "5a71a11c-1b2c-7d3e-8f40-5a6b7c8d9e0f";
const EVENT_UUID = "5a71a11c-1b2c-7d3e-8f40-5a6b7c8d9e10";
const SIGNING_SECRET = "whsec_of_the_tests_0001";

/** The ids and the texts that were stored, each with its own name, so that the test shows that each of them was there. */
const markers: string[] = [];
const marked = (name: string): string => {
  const marker = `${MARK}-${name}`;
  if (!markers.includes(marker)) markers.push(marker);
  return marker;
};

let server: KillableServer;
beforeAll(async () => {
  server = await startKillableServer();
}, 120_000);
afterAll(() => server?.close());

async function send(
  method: string,
  path: string,
  key: string,
  body: object,
  headers: Record<string, string> = {},
  status = 200,
) {
  const response = await fetch(`${server.url()}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  expect(response.status, `${path}: ${text}`).toBe(status);
  return JSON.parse(text);
}
const post = (path: string, key: string, body: object) => send("POST", path, key, body);

/** Signs in to the dashboard, and returns a function that submits a form. The audit records what an operator does. */
async function signIn(at: string) {
  let cookie = "";
  const submit = async (path: string, fields: Record<string, string>) => {
    const headers = { cookie, origin: server.url(), "sec-fetch-site": "same-origin" };
    const body = new URLSearchParams(fields);
    const response = await fetch(server.url() + path, { method: "POST", headers, body, redirect: "manual" });
    expect(response.status, await response.text()).toBe(303);
    return response.headers;
  };
  const signedIn = await submit("/admin/sign-in", { token: ADMIN_TOKEN, name: "Operator", next: "/admin/apps" });
  cookie =
    signedIn
      .getSetCookie()
      .find((each) => each.startsWith("purser_session="))
      ?.split(";")[0] ?? "";
  const page = await (await fetch(`${server.url()}/admin/apps`, { headers: { cookie } })).text();
  const [, _form = ""] = /name="_form" value="([^"]+)"/.exec(page) ?? [];
  return async (path: string, fields: Record<string, string>) => {
    expect((await submit(`${at}/${path}`, { _form, ...fields })).get("location")).toContain("notice=");
  };
}

/** The columns that no text of a caller reaches: hashes, and tables that have rows only while an erasure runs. */
const WITHOUT_TEXT = /\.(request_hash|settled_by|large_properties_bytes)$|^erasure_|^webhook_deliveries\.attempts$/;
/** Every column that names a person or has free text. */
const MARKED_COLUMNS = Object.entries(columnClasses)
  .flatMap(([table, { names = [], text = [] }]) => [...names, ...text].map((column) => `${table}.${column}`))
  .filter((column) => !WITHOUT_TEXT.test(column))
  .sort();

it("an erasure leaves no id and no text of its person in the bytes of a copy made by VACUUM INTO", async () => {
  const { appId } = await post("/api/v1/admin/apps", ADMIN_TOKEN, { name: "Shop" });
  const admin = (path: string, body: object) => post(`/api/v1/admin/apps/${appId}/${path}`, ADMIN_TOKEN, body);
  const { key } = await admin("keys", { kind: "secret", mode: "live" });
  const mode = "live";
  // Messages about the person wait, because nobody answers.
  await admin("webhooks", { mode, url: "http://127.0.0.1:9/", types: ["**"] });
  await admin("alerts", { mode, name: "Low", unit: "cents", below: { amount: 1_000 } });
  const limit = { mode, name: "Cap", unit: "cents", matches: [{ event: "*" }], amount: 50_000, every: "day" };
  const { limitId } = await admin("usage-limits", limit);
  const { packId } = await admin("packs", { packName: "Wallet", items: [{ unit: "cents", amount: 60_000 }] });
  await send("PUT", `/api/v1/admin/apps/${appId}/stripe`, ADMIN_TOKEN, {
    ...{ mode, setting: { signingSecrets: [SIGNING_SECRET], currency: "usd", prices: [{ price: "price_1", packId }] } },
  });
  const write = (path: string, body: object) => post(`/api/v1/${path}`, key, body);

  const userId = `${marked("user")}@example.com`;
  const grant = (externalRef: string) =>
    write("credits/grant", { userId, packId, externalRef, notes: marked("notes of a grant") });
  const { balanceId } = await grant(marked("order"));
  await grant(marked("order-refunded"));
  await write("credits/refund", {
    ...{ userId, externalRef: marked("order-refunded"), refundRef: marked("refund"), share: { part: 1, of: 3 } },
    reason: marked("reason of a refund"),
  });
  await post(`/api/v1/admin/balances/${balanceId}/adjust`, ADMIN_TOKEN, {
    ...{ delta: 5, note: marked("note of an adjustment"), adjustmentId: marked("adjustment") },
  });
  const { balanceId: revokedId } = await grant(marked("order-revoked"));
  await write("credits/revoke", { balanceId: revokedId, reason: marked("reason of a revoke") });
  const use = { userId, event: "call", quantities: { cents: 1 } };
  const properties = { [marked("name-of-a-property")]: marked("value of a property") };
  await write("usage/events", { ...use, eventId: marked("event"), properties });
  await write("usage/events", {
    ...{ ...use, eventId: marked("event-large") },
    properties: { much: `${marked("large property")} ${"x".repeat(20_000)}` },
  });
  await write("usage/events", [{ ...use, eventId: marked("event-of-a-list") }]);
  const cloudEvent = {
    specversion: "1.0",
    id: marked("cloud-event"),
    source: marked("source-of-events"),
    type: "call",
  };
  await send(
    "POST",
    "/api/v1/usage/events",
    key,
    { ...cloudEvent, subject: userId, data: { quantities: { cents: 1 } } },
    { "content-type": "application/cloudevents+json" },
  );
  const reserve = (name: string, more: object = {}) =>
    write("usage/reservations", { ...use, reservationId: `res_${marked(name)}`, ...more });
  await reserve("reservation-open");
  await reserve("reservation-released-by-an-operator");
  const operator = await signIn(`/admin/apps/${appId}/live`);
  await operator("users/reservation/release", {
    ...{ userId, reservationId: `res_${marked("reservation-released-by-an-operator")}` },
  });
  await operator("users/notes", { userId, text: marked("note of an operator") });
  const tooMuch = { ...use, event: marked("refused-event"), model: marked("refused-model"), quantities: { tokens: 1 } };
  await send("POST", "/api/v1/usage/events", key, { ...tooMuch, eventId: marked("refused") }, {}, 402);
  // The person is a member of two teams: one pays, the other has no credits.
  await write("credits/grant", { userId: "team", packId });
  await write("usage/events", { ...use, userId: "team", memberId: userId, eventId: "of-a-member", properties });
  const short = { ...use, userId: "team-without-credits", memberId: userId, eventId: "refused-of-a-member" };
  await send("POST", "/api/v1/usage/events", key, short, {}, 402);
  await reserve("reservation-charge", { onExpiry: "charge" });
  await reserve("reservation-released");
  await write(`usage/reservations/res_${marked("reservation-released")}/release`, {});
  await reserve("reservation-committed");
  await write(`usage/reservations/res_${marked("reservation-committed")}/commit`, {
    ...{ eventId: marked("event-of-a-commit"), quantities: { cents: 1 } },
  });
  await reserve("reservation-charged", { onExpiry: "charge", expiresInSeconds: 1 });
  for (const name of ["recurring", "recurring-cancelled"])
    await write("credits/recurring", { recurringId: `rec_${marked(name)}`, userId, packId, every: "month" });
  await write(`credits/recurring/rec_${marked("recurring-cancelled")}/cancel`, {
    ...{ at: "now", reason: marked("reason of a cancel") },
  });
  const recurringId = `rec_${marked("recurring-of-an-operator")}`;
  await write("credits/recurring", { recurringId, userId, packId, every: "month" });
  await operator("users/recurring/cancel", { userId, recurringId, at: "now", reason: marked("reason of an operator") });
  await send("PUT", `/api/v1/usage/limits/${limitId}/amount`, key, { userId, amount: 40_000 });
  await write("consent", {
    ...{ distinctId: userId, purpose: marked("purpose"), decision: "granted", method: marked("method") },
    ...{ noticeVersion: marked("notice"), source: marked("page of a consent") },
  });

  const crm = marked("id-in-another-system");
  const batch = [
    {
      ...{ event: marked("name of an event"), distinct_id: userId, uuid: EVENT_UUID },
      properties: { [marked("name-in-analytics")]: marked("value in analytics") },
    },
    { event: "$set", distinct_id: userId, properties: { $set: { [marked("name-set")]: marked("value set") } } },
    { event: "$identify", distinct_id: userId, properties: { $anon_distinct_id: DEVICE } },
    { event: "$create_alias", distinct_id: userId, properties: { alias: crm } },
    { event: "$pageview", distinct_id: DEVICE, properties: { $current_url: marked("page") } },
    { event: "seen", distinct_id: crm },
  ];
  await post("/batch/", key, { api_key: key, batch });
  await write("export-person", { distinctId: userId });

  const atSeconds = Math.floor(Date.now() / 1_000);
  const deliver = async (id: string, object: object, type = "checkout.session.completed") => {
    const event = { id, object: "event", type, created: atSeconds, livemode: true };
    const body = JSON.stringify({ ...event, data: { object } });
    const response = await fetch(`${server.url()}/api/v1/stripe/${appId}/live`, {
      method: "POST",
      headers: { "stripe-signature": await stripeSignature(body, SIGNING_SECRET, atSeconds) },
      body,
    });
    expect(response.status, await response.clone().text()).toBe(200);
    return (await response.json()) as { outcome: string };
  };
  const paid = { mode: "payment", payment_status: "paid", currency: "usd", amount_subtotal: 5, amount_total: 5 };
  const pay = (id: string, pack: string) =>
    deliver(`evt_${id}`, {
      ...{ ...paid, id: `cs_${id}`, payment_intent: `pi_${id}`, client_reference_id: userId },
      ...{ customer: marked("customer"), metadata: { pack } },
    });
  expect((await pay("1", "wallet")).outcome).toBe("granted");
  expect((await pay("2", marked("pack-that-was-asked-for"))).outcome).toBe("unmatched");
  expect((await pay("4", marked("pack-that-an-operator-replaced"))).outcome).toBe("unmatched");
  await admin("payments/pi_4/settle", { mode, userId, packId });
  const signUp = { id: "cs_3", mode: "subscription", payment_status: "paid", customer: marked("subscriber") };
  expect((await deliver("evt_3", { ...signUp, client_reference_id: userId })).outcome).toBe("remembered");
  const bill = (id: string, about: object) => {
    const lines = [{ id: "il_1", price: "price_1" }];
    return deliver(`evt_${id}`, invoice(id, { customer: marked("subscriber"), lines, ...about }), "invoice.paid");
  };
  expect((await bill("in_1", { subscription: {} })).outcome).toBe("granted");
  expect((await bill("in_2", { paid: 0, total: 1000 })).outcome).toBe("unmatched");

  // The reservation of a second is charged, the first attempts of messages fail, and the next response is followed by the rejections.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  await write("export-person", { distinctId: userId });
  await server.cron();
  await server.kill();
  const ids = [DEVICE, EVENT_UUID];
  // A customer who pays once is not stored.
  const stored = [...markers.filter((marker) => marker !== `${MARK}-customer`), ...ids].sort();
  expect(findInCopies(server.state, stored)).toEqual(stored);
  expect(findColumns(server.state, [MARK, ...ids])).toEqual(MARKED_COLUMNS);

  await server.start();
  const erased = await write("erase-person", { distinctId: userId });
  expect([erased.status, erased.distinctIds.toSorted()]).toEqual(["completed", [DEVICE, crm, userId].toSorted()]);
  await server.cron();
  await server.kill();
  expect(findColumns(server.state, [MARK, ...ids])).toEqual([]);
  expect(findInCopies(server.state, [...markers, ...ids, MARK])).toEqual([]);
}, 120_000);
