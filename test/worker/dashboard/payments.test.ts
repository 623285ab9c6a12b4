import { afterAll, expect, it } from "vitest";
import { browse } from "../../support/browse.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { paymentsWorld } from "../../support/payments.ts";
import { charge, eventOf, session } from "../../support/stripe-events.ts";

afterAll(expectLedgerInvariants);

async function world() {
  const w = await paymentsWorld();
  const browser = browse(w.clock);
  await browser.signIn();
  const at = `/admin/apps/${w.app.appId}/live`;
  const read = async (path: string) => {
    const answer = await browser.get(`${at}/${path}`);
    return { status: answer.status, text: (await answer.text()).replaceAll("&amp;", "&") };
  };
  const send = async (path: string, fields: Record<string, string>) =>
    browser.post(`${at}/${path}`, { _form: await browser.formToken(), ...fields });
  return { ...w, read, send };
}

it("shows what to enter at Stripe, when an event came last, and what a payment granted and gave back", async () => {
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
  const one = await w.read("payments/cs_1");
  expect(one.status).toBe(200);
  for (const part of ["<code>pi_1</code>", "<code>cs_1</code>", "charge.refunded", "taken", "250"])
    expect(one.text).toContain(part);
  expect(one.text).not.toContain("Grant it by hand");
  expect((await w.read("payments?status=unmatched")).text).toContain("No payments.");
  expect((await w.read("payments/pi_none")).status).toBe(404);
});

it("settles what is unmatched once, and says beside the field what is refused", async () => {
  const w = await world();
  const fields = { client_reference_id: "ada", metadata: { pack: "gone" }, payment_intent: "pi_1" };
  await w.deliver(eventOf("checkout.session.completed", w.nowS, session("cs_1", fields)));
  expect((await w.read("payments?status=unmatched")).text).toContain("No such pack");
  const form = { userId: "ada", packId: w.packs.tokens };
  const refused = await w.send("payments/pi_1/settle", form);
  expect(refused.status).toBe(400);
  expect(await refused.text()).toContain("field-error");
  const confirm = (fields: Record<string, string>) => w.read(`payments/pi_1/settle?${new URLSearchParams(fields)}`);
  const without = await confirm(form);
  expect([without.status, without.text.includes("field-error")]).toEqual([400, true]);
  expect((await confirm({ ...form, packId: "cpk_none", quantity: "1" })).status).toBe(404);
  expect((await confirm({ ...form, quantity: "100,5" })).text).toContain("must be a number such as");
  expect((await w.read(`payments/pi_none/settle?${new URLSearchParams({ ...form, quantity: "1" })}`)).status).toBe(404);
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
  const unsure = await w.send("payments/pi_1/settle", { ...form, quantity: "12,345,678", asked: "yes" });
  expect([unsure.status, (await unsure.text()).includes("Nothing was changed: tick the box")]).toEqual([400, true]);
  expect(await w.balances("ada")).toEqual([]);
  const first = await w.send("payments/pi_1/settle", { ...form, quantity: "1,000" });
  expect(first.headers.get("location")).toContain("notice=settled");
  // The confirmation, gone back to, has nothing left to ask.
  expect((await confirm({ ...form, quantity: "1,000" })).status).toBe(303);
  expect((await w.send("payments/pi_1/settle", { ...form, quantity: "1000" })).status).toBe(303);
  expect(await w.balances("ada")).toEqual([["tokens", 1000, "active"]]);
});

it("saves the setting, keeps its secrets, and takes no events once it is off", async () => {
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
  expect((await w.read("payments")).text).toContain("no events are taken");
});
