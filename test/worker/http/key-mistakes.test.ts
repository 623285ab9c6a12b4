import { type Mistake, type MistakenRequest, type MistakenWorld, testMistakes } from "../../support/mistakes.ts";

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

/** Tests texts that are no key: the mistake, its request, and what the message names. */
const testKeys = (about: string, rows: readonly (readonly [string, Mistake["send"], ...string[]])[]): void =>
  testMistakes(
    about,
    rows.map(([name, send, ...names]) => ({ name, send, code: "invalid_key", names })),
  );

const exportToken = `${btoa('{"appId":"a","mode":"live"}').replace(/=+$/, "")}.c2lnbmF0dXJl`;

testKeys("a key that is sent in a wrong way is refused, and the message says how to send it", [
  ["no key", () => ({ path: LIST_OF_ANA, key: null }), HOW],
  [
    "a key in X-Api-Key",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { "X-Api-Key": keys.sk_live } }),
    HOW,
    "`x-api-key`",
  ],
  [
    "a key in apikey",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { apikey: keys.sk_live } }),
    HOW,
    "`apikey`",
  ],
  [
    "a key in Authentication",
    ({ keys }) => ({ path: LIST_OF_ANA, key: null, headers: { Authentication: `Bearer ${keys.sk_live}` } }),
    HOW,
    "`authentication`",
  ],
  ["a key in the query", ({ keys }) => ({ path: `${LIST_OF_ANA}&api_key=${keys.sk_live}`, key: null }), HOW],
  [
    "a key in the body",
    ({ keys }) => ({ ...GRANT_REQUEST, body: { ...GRANT_REQUEST.body, apiKey: keys.sk_live }, key: null }),
    HOW,
  ],
  [
    "only a user's token",
    ({ userToken }) => ({ path: LIST_OF_ANA, key: null, headers: { "x-user-token": userToken } }),
    HOW,
  ],
  ["a key without Bearer", header(({ keys }) => keys.sk_live), HOW],
  ["Bearer twice", header(({ keys }) => `Bearer Bearer ${keys.sk_live}`), HOW],
  ["Bearer with a colon", header(({ keys }) => `Bearer: ${keys.sk_live}`), HOW],
  ["Bearer without a key", header(() => "Bearer "), HOW],
  ["two headers", header(({ keys }) => `Bearer ${keys.sk_live}, Bearer ${keys.pk_live}`), HOW],
  ["a key with Basic", header(({ keys }) => `Basic ${btoa(`${keys.sk_live}:`)}`), HOW, "`Bearer`"],
  ["a key with Token", header(({ keys }) => `Token ${keys.sk_live}`), HOW, "`Bearer`"],
  [
    "a key with a space in it",
    header(({ keys }) => `Bearer ${keys.sk_live.slice(0, 9)} ${keys.sk_live.slice(9)}`),
    HOW,
  ],
  ["a key in quotes", key(({ keys }) => `"${keys.sk_live}"`)],
  ["a shell variable that was not replaced", key(() => "$PURSER_KEY")],
  ["a template variable that was not replaced", key(() => "{{purser_key}}")],
  ["a placeholder in angle brackets", key(({ keys }) => `<${keys.sk_live}>`)],
  ["undefined", key(() => "undefined")],
  ["None", key(() => "None")],
]);

testKeys("another text in place of a key is refused, and the message says what the text is", [
  ["the hint of a key", key(() => "sk_live_...AbCd")],
  ["a key without one of its characters", key(({ keys }) => keys.sk_live.slice(0, -1))],
  ["a key with another character", key(({ keys }) => keys.sk_live.replace(/.$/, "!"))],
  ["a key with the prefix in capitals", key(({ keys }) => keys.sk_live.toUpperCase())],
  ["a key with hyphens", key(({ keys }) => keys.sk_live.replaceAll("_", "-")), "`sk_`"],
  ["a live key with the prefix of a test key", key(({ keys }) => keys.sk_live.replace("live", "test"))],
  ["the id of a key", key(() => "key_8tLf2mY4cJ7hWs1xNvQ9Ba")],
  ["the id of an application", key(({ app }) => app.appId)],
  ["a user's JWT", key(({ userToken }) => userToken), "`X-User-Token`"],
  ["the token of an export's link", key(() => exportToken)],
  ["the admin token", key(({ adminToken }) => adminToken), "`/api/v1/admin`"],
  ["PostHog's project key", key(() => `phc_${"a1B2".repeat(10)}`)],
  ["PostHog's personal key", key(() => `phx_${"a1B2".repeat(10)}`)],
  ["Stripe's secret key", key(() => `sk_test_51${"a1B2".repeat(24)}`)],
  ["Stripe's publishable key", key(() => `pk_live_51${"a1B2".repeat(24)}`)],
  ["Stripe's older secret key", key(() => "sk_test_4eC39HqLyjWDarjtT1zdp7dc")],
  ["Stripe's restricted key", key(() => `rk_live_51${"a1B2".repeat(24)}`)],
  ["the signing secret of a webhook", key(() => `whsec_${"a1B2".repeat(8)}`)],
  ["a key of a model provider", key(() => `sk-proj-${"a1B2".repeat(10)}`), "`sk_`"],
  ["any other text", key(() => "correct-horse-battery-staple")],
]);

testMistakes("a wrong key of Purser's own is refused with the right one", [
  {
    name: "a publishable key for a grant",
    send: ({ keys }) => ({ ...GRANT_REQUEST, key: keys.pk_live }),
    code: "forbidden",
    names: [],
  },
  {
    name: "a publishable key for the history",
    send: ({ keys }) => ({ path: "/api/v1/credits/history?userId=ana", key: keys.pk_live }),
    code: "requires_secret_key",
    names: [],
  },
  {
    name: "a publishable key for an export",
    send: ({ keys }) => ({ path: "/api/v1/export-person", body: { distinctId: "ana" }, key: keys.pk_live }),
    code: "requires_secret_key",
    names: [],
  },
  {
    name: "a publishable key without a user's token",
    send: ({ keys }) => ({ path: LIST_OF_ANA, key: keys.pk_live }),
    code: "invalid_user_token",
    names: ["`X-User-Token`"],
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
    names: [],
  },
  {
    name: "Bearer before the user's token",
    send: ({ keys, userToken }) => ({
      path: LIST_OF_ANA,
      key: keys.pk_live,
      headers: { "x-user-token": `Bearer ${userToken}` },
    }),
    code: "invalid_user_token",
    names: ["`Bearer`"],
  },
  {
    name: "the secret key as the user's token",
    send: ({ keys }) => ({ path: LIST_OF_ANA, key: keys.pk_live, headers: { "x-user-token": keys.sk_live } }),
    code: "invalid_user_token",
    names: [],
  },
  {
    name: "a secret key for the administration",
    send: ({ keys }) => ({ path: "/api/v1/admin/apps", key: keys.sk_live }),
    code: "invalid_key",
    names: ["`ADMIN_TOKEN`"],
  },
  {
    name: "a wrong admin token",
    send: () => ({ path: "/api/v1/admin/apps", key: "administrator-token-of-last-year-0001" }),
    code: "invalid_key",
    names: ["`ADMIN_TOKEN`"],
  },
  {
    name: "a user's JWT for the administration",
    send: ({ userToken }) => ({ path: "/api/v1/admin/apps", key: userToken }),
    code: "invalid_key",
    names: [],
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
    names: [],
  },
  {
    name: "PostHog's key in a capture",
    send: () => ({
      path: "/batch/",
      key: null,
      body: { api_key: `phc_${"a1B2".repeat(10)}`, batch: [{ event: "seen", distinct_id: "d" }] },
    }),
    code: "invalid_key",
    names: [],
  },
  {
    name: "no key in a capture",
    send: () => ({ path: "/batch/", key: null, body: { batch: [{ event: "seen", distinct_id: "d" }] } }),
    code: "invalid_key",
    names: ["`api_key`"],
  },
]);
