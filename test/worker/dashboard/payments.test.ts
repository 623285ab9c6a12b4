import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { DAY_MS } from "../../../src/lib/time.ts";
import { openDashboard, tableRows } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld, SIGNING_SECRET, signatureOf } from "../../support/payments.ts";
import { credit, plansShop } from "../../support/plans-shop.ts";
import { createRandom } from "../../support/random.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";
import { TODAY } from "../../support/stripe-versions.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const w = await paymentsWorld();
  const { read, send } = await openDashboard(w.app, w.clock);
  return { ...w, read, send };
}

it("the page of payments shows what to enter at Stripe, the last event, and what a payment granted and gave back", async () => {
  const w = await world();
  const before = await w.read("payments");
  for (const part of [
    `/api/v1/stripe/${w.app.appId}/live`,
    "charge.dispute.funds_reinstated",
    "none yet",
    "whsec_…0001",
  ]) {
    expect(before.text).toContain(part);
  }
  const fields = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  await w.deliver(eventOf("charge.refunded", w.nowS, charge("ch_1", "pi_1", 250)));
  const { text } = await w.read("payments");
  for (const part of ["pi_1", "granted", "ada", "$10.00", "$2.50", "2026-01-15"]) expect(text).toContain(part);
  const page = await w.read("payments/cs_1");
  expect(page.status).toBe(200);
  for (const part of [">pi_1</code>", ">cs_1</code>", "charge.refunded", "taken", "250"])
    expect(page.text).toContain(part);
  expect(page.text).toContain('href="https://dashboard.stripe.com/payments/pi_1"');
  const requested = /aria-label="Requested at Stripe"[\s\S]*?<\/table>/.exec(page.text)?.[0] ?? "";
  for (const part of ["cs_1", "wallet"]) expect(requested).toContain(part);
  const events = /aria-label="Events"[\s\S]*?<\/table>/.exec(page.text)?.[0] ?? "";
  for (const part of ["ada", "https://dashboard.stripe.com/events/evt_"]) expect(events).toContain(part);
  expect(page.text).not.toContain("Grant it by hand");
  expect((await w.read("payments?status=unmatched")).text).toContain("No payments.");
  expect((await w.read("payments/pi_none")).status).toBe(404);
});

it("a payment's page shows the exact share of the lines that its invoice granted", async () => {
  const { w, paid, basic } = await plansShop(TODAY);
  await w.deliver(paid("in_1", [credit(basic("il_1", 430))]));
  // The carry of $4.30 pays for a part of $10.00.
  expect(await w.deliver(paid("in_2", [basic("il_2")], { paid: 570 }))).toBe("granted");
  const { read } = await openDashboard(w.app, w.clock);
  expect((await read("payments/in_2")).text).toMatch(/Share of the lines that is granted<\/dt>\s*<dd>57 %</);
});

it("a payment's page counts the times of Stripe's events from real time under a test clock", async () => {
  const w = await paymentsWorld();
  expect((await w.set({ signingSecrets: [SIGNING_SECRET], prices: [] }, "test")).status).toBe(200);
  const now = new Date(w.clock.ms + 5 * DAY_MS).toISOString();
  expect((await w.admin("PUT", `${w.path}/clock`, { key: env.ADMIN_TOKEN, body: { now } })).status).toBe(200);
  const fields = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: "pi_1", livemode: false };
  const event = { ...eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)), livemode: false };
  const body = JSON.stringify(event);
  const headers = { "stripe-signature": await signatureOf(body, w.clock) };
  expect((await w.call("POST", `/api/v1/stripe/${w.app.appId}/test`, { body, headers })).body.outcome).toBe("granted");
  const { read } = await openDashboard(w.app, w.clock, "test");
  expect(tableRows((await read("payments/pi_1")).text, "Events")[0]).toMatch(/^just now /);
});

it("an unmatched payment is settled once, and a rejection is shown beside its field", async () => {
  const w = await world();
  const fields = { client_reference_id: "ada", metadata: { pack: "gone" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  expect((await w.read("payments?status=unmatched")).text).toContain("No such pack");
  for (const part of ["gone", "The application has no pack with this id or name"]) {
    expect((await w.read("payments/pi_1")).text).toContain(part);
  }
  const form = { userId: "ada", packId: w.packs.tokens };
  const refused = await w.send("payments/pi_1/settle", form);
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("field-error");
  const confirm = (fields: Record<string, string>) =>
    w.read(`payments/pi_1/settle/confirm?${new URLSearchParams(fields)}`);
  const without = await confirm(form);
  expect([without.status, without.text.includes("field-error")]).toEqual([400, true]);
  expect((await confirm({ ...form, packId: "cpk_none", quantity: "1" })).status).toBe(404);
  expect((await confirm({ ...form, quantity: "100,5" })).text).toContain("must be a number such as");
  expect(
    (await w.read(`payments/pi_none/settle/confirm?${new URLSearchParams({ ...form, quantity: "1" })}`)).status,
  ).toBe(404);
  const large = await confirm({ userId: ` ada "><img src=x>`, packId: w.packs.tokens, quantity: "12,345,678" });
  expect(large.status).toBe(200);
  for (const part of [
    "0 → 12,345,678 tokens",
    "large amount: 12,345,678 tokens",
    "begins or ends with a space",
    "pi_1: $10.00",
  ]) {
    expect(large.text).toContain(part);
  }
  expect(large.text).not.toContain("<img");
  const forNobody = await confirm({ userId: "nobody", packId: w.packs.tokens, quantity: "1" });
  expect(forNobody.text).toContain("No user has this id yet. The grant creates a new user.");
  expect(forNobody.text).toContain('name="asked" value="yes"');
  const unsure = await w.send("payments/pi_1/settle", { ...form, quantity: "12,345,678", asked: "yes" });
  expect([unsure.status, (await unsure.text()).includes("Nothing was changed: tick the box")]).toEqual([400, true]);
  expect(await w.balances("ada")).toEqual([]);
  const first = await w.send("payments/pi_1/settle", { ...form, quantity: "1,000" });
  expect(first.headers.get("location")).toContain("notice=settled");
  // If the confirmation is opened again, there is nothing left to confirm.
  expect((await confirm({ ...form, quantity: "1,000" })).status).toBe(303);
  expect((await w.send("payments/pi_1/settle", { ...form, quantity: "1000" })).status).toBe(303);
  expect(await w.balances("ada")).toEqual([["tokens", 1000, "active"]]);
});

it("the form of Stripe's setting saves it, keeps its secrets, and removes it", async () => {
  const w = await world();
  const prices = `price_1, two\nprice_2, tokens, 12.5, period\n\nprice_3, wallet, 7, trial, amount=1000`;
  const saved = await w.send("payments/stripe", { secret: "", previous: "", currency: "eur", prices });
  expect(saved.headers.get("location")).toContain("notice=set");
  const { text } = await w.read("payments");
  for (const part of ["price_1, two\n", "price_2, tokens, 12.5, period", "price_3, wallet, 7", 'value="eur"']) {
    expect(text).toContain(part);
  }
  const refused = await w.send("payments/stripe", { currency: "eur", prices: "price_1, nothing" });
  expect(refused.status).toBe(404);
  expect(await refused.text()).toContain("The application has no such pack");
  const off = await w.send("payments/stripe", { currency: "eur", prices: "", off: "yes" });
  expect(off.status).toBe(303);
  expect((await w.read("payments")).text).toContain("no events are accepted");
});

it("the form of Stripe's setting keeps its currency while a carry is rejected, and the form of a carry what was typed", async () => {
  const w = await world();
  const currencies = (text: string) =>
    [...text.matchAll(/<input[^>]*name="currency"[^>]*>/g)].map(([tag]) => /value="([^"]*)"/.exec(tag)?.[1]);
  const refused = await w.send("payments/carry", { customer: "cus_1", currency: "eur", amount: "-" });
  expect(refused.status).toBe(400);
  expect(currencies(await refused.text())).toEqual(["eur", "usd"]);
  const setting = await w.send("payments/stripe", { currency: "chf", prices: "price_1, tokens, x" });
  expect(setting.status).toBe(400);
  expect(currencies(await setting.text())).toEqual(["", "chf"]);
});

it("the preview of a refund equals the effect of the later event, and changes nothing", async () => {
  const { pick } = createRandom(24);
  for (let round = 0; round < 4; round++) {
    const w = await world();
    const fields = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
    await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
    const before = pick([0, 100, 300]);
    if (before > 0) await w.deliver(eventOf("charge.refunded", w.nowS + 1, charge("ch_1", "pi_1", before)));
    const use = { userId: "ada", event: "chat" };
    await w.post("usage/events", { ...use, eventId: "e1", quantities: { count: 0, cents: pick([1, 250, 650]) } });
    const hold = { ...use, reservationId: "r1", quantities: { cents: 40 } };
    await w.post("usage/reservations", { ...hold, expiresInSeconds: 60 });
    // In every second round the hold is due.
    if (round % 2 === 1) w.clock.ms += 120_000;
    const part = pick([1, 200, 333, 700, 1000]);
    const stored = await w.stored();
    const page = await w.read(`payments/pi_1/refund?part=${part}&of=1000`);
    expect(page.status).toBe(200);
    expect(await w.stored()).toEqual(stored);
    expect(page.text).toContain("https://dashboard.stripe.com/payments/pi_1");
    const shown = /<table[\s\S]*?<tbody>([\s\S]*?)<\/tbody>/.exec(page.text)?.[1] ?? "";
    const cells = [...shown.matchAll(/<td[^>]*>([\s\S]*?)<\/td>/g)].map(([, cell = ""]) =>
      cell.replace(/<[^>]*>/g, ""),
    );
    const [takenBefore] = (await w.payments())[0].grants.map((grant: { taken: number }) => grant.taken);
    const refunded = Math.min(1000, before + part);
    await w.deliver(eventOf("charge.refunded", w.nowS + 9, charge("ch_1", "pi_1", refunded)));
    const [takenAfter] = (await w.payments())[0].grants.map((grant: { taken: number }) => grant.taken);
    expect(Number(cells[2]?.replaceAll(",", "")), `${before} ${part} ${round}`).toBe(takenAfter - takenBefore);
    expect(Number(cells[3]?.replaceAll(",", ""))).toBe((await w.balances("ada"))[0]?.[1]);
  }
}, 60_000);

it("the preview of a refund is rejected for a share above 1, and for an unknown payment", async () => {
  const w = await world();
  const fields = { client_reference_id: "ada", metadata: { pack: "wallet" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  expect((await w.read("payments/pi_1/refund?part=2&of=1")).status).toBe(400);
  expect((await w.read("payments/pi_1/refund?part=a&of=1")).text).toContain("must be a number such as");
  expect((await w.read("payments/pi_none/refund?part=1&of=2")).status).toBe(404);
});
