import Stripe from "stripe";
import { expect, it } from "vitest";
import { checkSignature } from "../../src/payments/receiver.ts";
import { stripeSignature } from "../support/stripe-signature.ts";
import { TODAY } from "../support/stripe-versions.ts";

const secret = "whsec_of_the_tests_0001";
const payload = '{"id":"evt_1","name":"Jürgen"}';
const nowMs = 1_768_478_400_500;
const timestamp = 1_768_478_400;
const bytes = new TextEncoder().encode(payload);
const stripeHeader = Stripe.webhooks.generateTestHeaderString({ payload, secret, timestamp });

it("the signature that tests make equals that of Stripe's package", async () => {
  expect(await stripeSignature(payload, secret, timestamp)).toBe(stripeHeader);
});

it("accepts a signature of Stripe's package, with either secret during a rotation, beside other signatures", async () => {
  await checkSignature(stripeHeader, bytes, [secret], nowMs);
  await checkSignature(stripeHeader, bytes, ["whsec_another_one_0002", secret], nowMs);
  await checkSignature(`${stripeHeader},v1=${"0".repeat(64)},v0=${"1".repeat(64)}`, bytes, [secret], nowMs);
  await checkSignature(stripeHeader.replace(",v1", `,v1=${"0".repeat(64)},v1`), bytes, [secret], nowMs);
});

it("accepts a timestamp at most 300 seconds before or after now", async () => {
  for (const seconds of [-300, 300]) await checkSignature(stripeHeader, bytes, [secret], nowMs + seconds * 1_000);
  for (const seconds of [-301, 301]) {
    const check = checkSignature(stripeHeader, bytes, [secret], nowMs + seconds * 1_000);
    await expect(check).rejects.toMatchObject({ code: "invalid_signature" });
  }
});

const [, v1 = ""] = /v1=(\w+)/.exec(stripeHeader) ?? [];
it.each([
  ["a missing header", undefined],
  ["an empty header", ""],
  ["another scheme", stripeHeader.replace("v1=", "v0=")],
  ["a missing time", `v1=${v1}`],
  ["two times", `t=${timestamp},${stripeHeader}`],
  ["another time", stripeHeader.replace(`${timestamp}`, `${timestamp + 1}`)],
  ["a time that is not a whole number", `t=1e9,v1=${v1}`],
  ["a part of the signature", `t=${timestamp},v1=${v1.slice(0, 63)}`],
  ["a signature in upper case", `t=${timestamp},v1=${v1.toUpperCase()}`],
])("refuses %s", async (_, header) => {
  const check = checkSignature(header, bytes, [secret], nowMs);
  await expect(check).rejects.toMatchObject({ code: "invalid_signature", param: "Stripe-Signature" });
});

it("rejects another body, another secret, and any signature when no secret is set", async () => {
  const other = new TextEncoder().encode(payload.replace("evt_1", "evt_2"));
  await expect(checkSignature(stripeHeader, other, [secret], nowMs)).rejects.toMatchObject({
    code: "invalid_signature",
  });
  const check = checkSignature(stripeHeader, bytes, ["whsec_another_one_0002"], nowMs);
  await expect(check).rejects.toMatchObject({ code: "invalid_signature" });
  await expect(checkSignature(stripeHeader, bytes, [], nowMs)).rejects.toMatchObject({ code: "invalid_signature" });
});

it("the fixtures have the API version of Stripe's package", () => {
  expect(Stripe.API_VERSION).toBe(TODAY);
});
