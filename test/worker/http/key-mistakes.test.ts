import { describeMistakes, type Mistake, type MistakenRequest, type MistakenWorld } from "../../support/mistakes.ts";

const LIST_OF_ANA = "/api/v1/credits?userId=ana";
const HOW = "`Authorization: Bearer <key>`";
const GRANT_REQUEST = { path: "/api/v1/credits/grant", body: { userId: "ana", packId: "Starter" } };

/** A request for a list with another `Authorization` header. */
const header =
  (of: (world: MistakenWorld) => string) =>
  (world: MistakenWorld): MistakenRequest => ({ path: LIST_OF_ANA, key: null, headers: { authorization: of(world) } });

/** A request for a list with another key. */
const key =
  (of: (world: MistakenWorld) => string) =>
  (world: MistakenWorld): MistakenRequest => ({ path: LIST_OF_ANA, key: of(world) });

const mistake = (name: string, send: Mistake["send"], ...says: string[]): Mistake => ({
  name,
  send,
  code: "invalid_key",
  says,
});

const exportToken = `${btoa('{"appId":"a","mode":"live"}').replace(/=+$/, "")}.c2lnbmF0dXJl`;

describeMistakes("a key that is sent in a wrong way is refused, and the message says how to send it", [
  mistake("no key", () => ({ path: LIST_OF_ANA, key: null }), HOW),
  mistake(
    "a key in X-Api-Key",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { "X-Api-Key": keys.sk_live } }),
    HOW,
    "`x-api-key`",
  ),
  mistake(
    "a key in apikey",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { apikey: keys.sk_live } }),
    HOW,
    "`apikey`",
  ),
  mistake(
    "a key in Authentication",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { Authentication: `Bearer ${keys.sk_live}` } }),
    HOW,
    "`authentication`",
  ),
  mistake(
    "a key in the query",
    ({ keys }) => ({ path: `${LIST_OF_ANA}&api_key=${keys.sk_live}`, key: null }),
    HOW,
    "URLs are logged",
    "Replace",
  ),
  mistake(
    "a key in the body",
    ({ keys }) => ({ ...GRANT_REQUEST, body: { ...GRANT_REQUEST.body, apiKey: keys.sk_live }, key: null }),
    HOW,
  ),
  mistake(
    "only a user's token",
    ({ userToken }) => ({ path: LIST_OF_ANA, key: null, headers: { "x-user-token": userToken } }),
    HOW,
    "publishable key",
  ),
  mistake(
    "a key without Bearer",
    header(({ keys }) => keys.sk_live),
    HOW,
    "missing before the key",
  ),
  mistake(
    "Bearer twice",
    header(({ keys }) => `Bearer Bearer ${keys.sk_live}`),
    HOW,
    "twice",
  ),
  mistake(
    "Bearer with a colon",
    header(({ keys }) => `Bearer: ${keys.sk_live}`),
    HOW,
    "a space",
  ),
  mistake(
    "Bearer without a key",
    header(() => "Bearer "),
    HOW,
    "no key",
  ),
  mistake(
    "two headers",
    header(({ keys }) => `Bearer ${keys.sk_live}, Bearer ${keys.pk_live}`),
    HOW,
    "one header",
  ),
  mistake(
    "a key with Basic",
    header(({ keys }) => `Basic ${btoa(`${keys.sk_live}:`)}`),
    HOW,
    "the scheme is `Bearer`",
  ),
  mistake(
    "a key with Token",
    header(({ keys }) => `Token ${keys.sk_live}`),
    HOW,
    "the scheme is `Bearer`",
  ),
  mistake(
    "a key with a space in it",
    header(({ keys }) => `Bearer ${keys.sk_live.slice(0, 9)} ${keys.sk_live.slice(9)}`),
    HOW,
    "white space",
  ),
  mistake(
    "a key in quotes",
    key(({ keys }) => `"${keys.sk_live}"`),
    "quotes",
  ),
  mistake(
    "a shell variable that was not replaced",
    key(() => "$PURSER_KEY"),
    "placeholder",
  ),
  mistake(
    "a template variable that was not replaced",
    key(() => "{{purser_key}}"),
    "placeholder",
  ),
  mistake(
    "a placeholder in angle brackets",
    key(({ keys }) => `<${keys.sk_live}>`),
    "placeholder",
  ),
  mistake(
    "undefined",
    key(() => "undefined"),
    "variable",
    "not set",
  ),
  mistake(
    "None",
    key(() => "None"),
    "variable",
    "not set",
  ),
]);

describeMistakes("another text in place of a key is refused, and the message says what the text is", [
  mistake(
    "the hint of a key",
    key(() => "sk_live_...AbCd"),
    "hint",
    "shown once",
  ),
  mistake(
    "a key without one of its characters",
    key(({ keys }) => keys.sk_live.slice(0, -1)),
    "mistyped or incomplete",
  ),
  mistake(
    "a key with another character",
    key(({ keys }) => keys.sk_live.replace(/.$/, "!")),
    "mistyped or incomplete",
  ),
  mistake(
    "a key with the prefix in capitals",
    key(({ keys }) => keys.sk_live.toUpperCase()),
    "lower case",
  ),
  mistake(
    "a key with hyphens",
    key(({ keys }) => keys.sk_live.replaceAll("_", "-")),
    "`sk_`",
  ),
  mistake(
    "a live key with the prefix of a test key",
    key(({ keys }) => keys.sk_live.replace("live", "test")),
    "mistyped or incomplete",
  ),
  mistake(
    "the id of a key",
    key(() => "key_8tLf2mY4cJ7hWs1xNvQ9Ba"),
    "the id of a key",
    "shown once",
  ),
  mistake(
    "the id of an application",
    key(({ app }) => app.appId),
    "an id, not a key",
  ),
  mistake(
    "a user's JWT",
    key(({ userToken }) => userToken),
    "a JWT",
    "`X-User-Token`",
  ),
  mistake(
    "the token of an export's link",
    key(() => exportToken),
    "export",
    "without a key",
  ),
  mistake(
    "the admin token",
    key(({ adminToken }) => adminToken),
    "not a key",
    "`/api/v1/admin`",
  ),
  mistake(
    "PostHog's project key",
    key(() => `phc_${"a1B2".repeat(10)}`),
    "PostHog",
  ),
  mistake(
    "PostHog's personal key",
    key(() => `phx_${"a1B2".repeat(10)}`),
    "PostHog",
  ),
  mistake(
    "Stripe's secret key",
    key(() => `sk_test_51${"a1B2".repeat(24)}`),
    "Stripe",
  ),
  mistake(
    "Stripe's publishable key",
    key(() => `pk_live_51${"a1B2".repeat(24)}`),
    "Stripe",
  ),
  mistake(
    "Stripe's older secret key",
    key(() => "sk_test_4eC39HqLyjWDarjtT1zdp7dc"),
    "Stripe",
  ),
  mistake(
    "Stripe's restricted key",
    key(() => `rk_live_51${"a1B2".repeat(24)}`),
    "Stripe",
  ),
  mistake(
    "the signing secret of a webhook",
    key(() => `whsec_${"a1B2".repeat(8)}`),
    "signing secret",
  ),
  mistake(
    "a key of a model provider",
    key(() => `sk-proj-${"a1B2".repeat(10)}`),
    "`sk_`",
  ),
  mistake(
    "any other text",
    key(() => "correct-horse-battery-staple"),
    "not a key of Purser",
  ),
]);

describeMistakes("a wrong key of Purser's own is refused with the right one", [
  {
    name: "a publishable key for a grant",
    send: ({ keys }) => ({ ...GRANT_REQUEST, key: keys.pk_live }),
    code: "forbidden",
    says: ["secret key", "backend"],
  },
  {
    name: "a publishable key for the history",
    send: ({ keys }) => ({ path: "/api/v1/credits/history?userId=ana", key: keys.pk_live }),
    code: "requires_secret_key",
    says: ["secret key", "backend"],
  },
  {
    name: "a publishable key for an export",
    send: ({ keys }) => ({ path: "/api/v1/export-person", body: { distinctId: "ana" }, key: keys.pk_live }),
    code: "requires_secret_key",
    says: ["secret key", "backend"],
  },
  {
    name: "a publishable key without a user's token",
    send: ({ keys }) => ({ path: LIST_OF_ANA, key: keys.pk_live }),
    code: "invalid_user_token",
    says: ["JWT", "`X-User-Token`"],
  },
  {
    name: "another user than the token's",
    send: ({ keys, userToken }) => ({
      path: "/api/v1/credits?userId=bob",
      key: keys.pk_live,
      headers: { "x-user-token": userToken },
    }),
    code: "forbidden",
    param: "userId",
    says: ["userId must be the user whom the end-user token names"],
  },
  {
    name: "Bearer before the user's token",
    send: ({ keys, userToken }) => ({
      path: LIST_OF_ANA,
      key: keys.pk_live,
      headers: { "x-user-token": `Bearer ${userToken}` },
    }),
    code: "invalid_user_token",
    says: ["without `Bearer`"],
  },
  {
    name: "the secret key as the user's token",
    send: ({ keys }) => ({ path: LIST_OF_ANA, key: keys.pk_live, headers: { "x-user-token": keys.sk_live } }),
    code: "invalid_user_token",
    says: ["is a key of Purser", "JWT"],
  },
  {
    name: "a secret key for the administration",
    send: ({ keys }) => ({ path: "/api/v1/admin/apps", key: keys.sk_live }),
    code: "invalid_key",
    says: ["a key of an application", "admin token", "`ADMIN_TOKEN`"],
  },
  {
    name: "a wrong admin token",
    send: () => ({ path: "/api/v1/admin/apps", key: "administrator-token-of-last-year-0001" }),
    code: "invalid_key",
    says: ["admin token", "`ADMIN_TOKEN`"],
  },
  {
    name: "a user's JWT for the administration",
    send: ({ userToken }) => ({ path: "/api/v1/admin/apps", key: userToken }),
    code: "invalid_key",
    says: ["a JWT"],
  },
  {
    name: "a secret key in a browser's capture",
    send: ({ keys }) => ({
      path: "/batch/",
      key: null,
      headers: { origin: "https://shop.example", "sec-fetch-site": "cross-site" },
      body: { api_key: keys.sk_live, batch: [{ event: "seen", distinct_id: "d" }] },
    }),
    code: "forbidden",
    says: ["publishable key", "replace"],
  },
  {
    name: "PostHog's key in a capture",
    send: () => ({
      path: "/batch/",
      key: null,
      body: { api_key: `phc_${"a1B2".repeat(10)}`, batch: [{ event: "seen", distinct_id: "d" }] },
    }),
    code: "invalid_key",
    says: ["PostHog"],
  },
  {
    name: "no key in a capture",
    send: () => ({ path: "/batch/", key: null, body: { batch: [{ event: "seen", distinct_id: "d" }] } }),
    code: "invalid_key",
    says: ["`api_key`"],
  },
]);
