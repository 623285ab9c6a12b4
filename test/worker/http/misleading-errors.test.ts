import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import { listUsers } from "../../../src/books/credits/users.ts";
import { expectLedgerInvariants } from "../../support/invariants.ts";
import { EVENTS, RESERVATIONS } from "../../support/paths.ts";
import { expectError } from "../../support/rejections.ts";
import { cents, centsOnly, makeSpender, wallet } from "../../support/spender.ts";
import { Clock, makeApp, makeClient, makeCtx, makeOpenAmountPack } from "../../support/world.ts";

afterAll(expectLedgerInvariants);

async function makeShop() {
  const { appId, keys, environments } = await makeApp();
  await makeOpenAmountPack(appId, "Tokens", "tokens");
  const call = makeClient(new Clock());
  const key = keys.sk_live;
  const grant = (userId: string, quantity: number | string) =>
    call("POST", "/api/v1/credits/grant", {
      key,
      body: `{"userId":${JSON.stringify(userId)},"packId":"tokens","quantity":${quantity}}`,
    });
  return { appId, call, grant, live: environments.live, users: () => call("GET", "/api/v1/credits/users", { key }) };
}

it("a quantity that is too large and one that is too fine are rejected in their own words, and nothing is granted", async () => {
  const { grant, users } = await makeShop();
  for (const [quantity, message] of [
    [8_796_093_022_209, "quantity must be at most 8796093022208 (`tokens`)."],
    [1e300, "quantity must be at most 8796093022208 (`tokens`)."],
    [0.0001, "quantity must have at most 3 decimals (`tokens`): round it first."],
    ["0.30000000000000000000000001", "quantity must be at most 8796093022208 (`tokens`), with at most 3 decimals."],
  ] as const) {
    const answer = await grant("u", quantity);
    expectError(answer, "invalid_quantity", "quantity");
    expect(answer.body.error.message).toBe(message);
  }
  expect((await users()).body.users).toEqual([]);
});

it("the list of users writes a sum that no double can represent with all its digits", async () => {
  const { grant, live } = await makeShop();
  for (const quantity of [8_796_093_022_208, 8_796_093_022_208, 8_796_093_022_207.999])
    expect((await grant("u", quantity)).status).toBe(200);
  const listed = await listUsers(makeCtx(live, new Clock()), { limit: 50 });
  // The response is written with `JSON.stringify`.
  expect(JSON.stringify(listed)).toContain('"remaining":{"tokens":26388279066623.999}');
});

it.each([
  ["userId=ana", "mode", "mode is required with `userId`"],
  ["mode=live", "userId", "userId is required with `mode`"],
])("the audit with only %s names the missing argument", async (given, param, says) => {
  const { appId, call } = await makeShop();
  const answer = await call("GET", `/api/v1/admin/apps/${appId}/audit?${given}`, { key: env.ADMIN_TOKEN });
  expectError(answer, "invalid_request", param);
  expect(answer.body.error.message).toContain(says);
});

it("a list of events of which one is not JSON says which, and records none", async () => {
  const { spend, post, remaining } = await makeSpender([wallet]);
  const before = await remaining();
  const body = '[{"eventId":"e1","userId":"u","event":"chat"},{"eventId":nope}]';
  const answer = await post(EVENTS, body);
  expectError(answer, "invalid_request", "body");
  expect(answer.body.error.message).toContain("in element 1 of the list (the first is 0)");
  expect(await remaining()).toEqual(before);
  expect((await spend("e1", cents(1))).body.isReplayed ?? false).toBe(false);
});

it("a shortage says in words what the first balance with `no_match` pays for", async () => {
  const { spend } = await makeSpender([
    { ...wallet, matches: [{ event: "image.*", model: "large" }, { model: "m*" }] },
  ]);
  const answer = await spend("e1", cents(1));
  expectError(answer, "insufficient_credits");
  expect(answer.body.error.message).toContain(
    "The first with `no_match` pays only for event `image.*` with model `large` or model `m*`.",
  );
});

it("a commit in another unit than the held one says which unit was held, and the hold remains", async () => {
  const { reserve, post } = await makeSpender([wallet]);
  expect((await reserve({ reservationId: "res_1", ...cents(10) })).status).toBe(200);
  const commit = (eventId: string, quantities: object) => post(`${RESERVATIONS}/res_1/commit`, { eventId, quantities });
  const answer = await commit("e1", { tokens: 5 });
  expectError(answer, "insufficient_credits");
  expect(answer.body.error.message).toContain("The reservation held `cents`: commit in that unit.");
  expect((await commit("e1", { cents: 10 })).status).toBe(200);
});

it("a shortage of a user whose balances are held says so", async () => {
  const { spend, reserve } = await makeSpender([wallet]);
  await reserve({ event: "chat", ...centsOnly(10) });
  const answer = await spend("e1", cents(1));
  expectError(answer, "insufficient_credits");
  expect(answer.body.error.message).toContain("or all of it is spent, held, expired or revoked.");
});

it.each(["9007199254740993", "300.00000000000000000001", "1e400"])(
  "a number with too many digits, %s, is not said to be no number",
  async (expiresInSeconds) => {
    const { userId, post } = await makeSpender([]);
    const hold = { userId, event: "chat", ...cents(1), expiresInSeconds: 0 };
    const body = JSON.stringify(hold).replace('"expiresInSeconds":0', `"expiresInSeconds":${expiresInSeconds}`);
    const answer = await post(RESERVATIONS, body);
    expectError(answer, "invalid_request", "expiresInSeconds");
    expect(answer.body.error.message).toMatch(
      /^expiresInSeconds must be a (whole )?number that a double can represent\.$/,
    );
  },
);
